# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# Suites of others on a mount that caches, as users have it.  Sourced by run.sh.

# suite <seconds> <command...>: in $MNT/suite.
suite() {
	topology_up A && load_modules && server_start && smb_mount cache=strict && mkdir $MNT/suite || return
	try "$@" || return
	rm -rf $MNT/suite && smb_umount && take_down
}

# Reads, writes, maps, truncates and reopens one file at random, and knows what must be in it.
test_suite_fsx() { suite 600 "$FSX" -N 3000 -S 7 -f "$TOP/tests/selftests/fsx.toml" $MNT/suite/fsx; }

# A file server's day, as recorded from one.
test_suite_dbench() { suite 300 dbench -D $MNT/suite -t 30 -c /usr/share/dbench/client.txt 4; }

# Small files, made, synced and removed by several threads.
test_suite_fs_mark() { suite 300 fs_mark -l /tmp/fs_mark.log -d $MNT/suite -n 300 -s 4096 -t 4; }

# The stressors for file systems that check what they get and need nothing a share lacks.
test_suite_stress() {
	local s stressors=()
	for s in hdd dentry dir fstat rename seek utime flock lockf open readahead; do stressors+=("--$s" 2); done
	suite 900 stress-ng --temp-path $MNT/suite --timeout 60 --verify "${stressors[@]}"
}
