#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration's guest side: a real file system over SMB Direct at both ends, from loading
# the modules to unloading them.  Last line: "demo: PASS" or "demo: FAIL: <what>".

# shellcheck source=tests/selftests/lib.sh
. "$TOP/tests/selftests/lib.sh"

T0=$SECONDS
# part <name> <command...>: one named and timed part; the demonstration ends at the first failure.
part() {
	local name=$1 start=$SECONDS
	shift
	if ! "$@"; then
		echo "demo: FAIL: $name: ${WHY:-no reason known}"
		exit 1
	fi
	printf '  %-46s %3d s\n' "$name" $((SECONDS - start))
}

# counters: what the RDMA device has carried.
counters() {
	local c
	for c in /sys/class/infiniband/rxe0/ports/1/hw_counters/{sent_bytes,rcvd_bytes,rdma_sends,rdma_recvs,sent_pkts,rcvd_pkts}; do
		[ ! -e "$c" ] || printf '%s %s  ' "${c##*/}" "$(<"$c")"
	done
	echo
}

big_file() {
	head -c $((64 << 20)) /dev/urandom >/tmp/in && cp /tmp/in $MNT/big && cp $MNT/big /tmp/out || why "copying failed" || return
	[ "$(sha256sum </tmp/in)" = "$(sha256sum </tmp/out)" ] || why "the file came back different" || return
	[ "$(sha256sum </tmp/in)" = "$(sha256sum <$SHARE/big)" ] || why "the server holds something else"
}

# A tree of real files, at least a thousand.  SMB names have no case: of each pair of files
# that differ in nothing else (netfilter has some) neither is taken.
tree_in() {
	local n
	mkdir /tmp/tree
	cp -rL /usr/include/{*.h,linux,rdma,infiniband,openssl,libnl3} /tmp/tree/
	(cd /tmp/tree && find . -type f | sort -f | uniq -Di | xargs rm)
	n=$(find /tmp/tree -type f | wc -l)
	[ "$n" -ge 1000 ] || why "only $n files to copy" || return
	cp -r /tmp/tree $MNT/tree || why "copying the tree in failed" || return
	echo "  ($n files, $(du -sm /tmp/tree | cut -f1) MiB)"
}

tree_back() { diff -r /tmp/tree $MNT/tree || why "diff -r found a difference"; }

tree_gone() {
	mv $MNT/tree $MNT/renamed && [ ! -e $MNT/tree ] && [ -e $SHARE/renamed/linux ] || why "rename failed" || return
	rm -r $MNT/renamed $MNT/big && [ -z "$(ls -A $MNT)" ] && [ -z "$(ls -A $SHARE)" ] || why "delete failed"
}

log_mark
echo "kernel: $(uname -r) ($(uname -v))"
echo "module: $SMBDIRECT_KO"
modinfo "$SMBDIRECT_KO" | grep -E '^(description|author|license|version|srcversion|vermagic|name):' | sed 's/^/  /'
part "set up RDMA (rxe on a dummy interface)" topology_up A
part "load smbdirect, ksmbd, cifs" load_modules
part "start ksmbd with a share" server_start
echo "rxe counters before: $(counters)"
part "mount -o rdma" smb_mount
part "the mount is on RDMA" over_rdma
grep ' cifs ' /proc/mounts | cut -c1-160
debug_block
part "64 MiB file in and out, SHA-256" big_file
part "copy a tree in" tree_in
part "read it back, diff -r" tree_back
part "rename and delete" tree_gone
echo "rxe counters after:  $(counters)"
part "unmount" smb_umount
part "stop ksmbd" server_stop
part "unload all three modules" unload_modules
part "remove the RDMA device" topology_down
part "kernel log is clean" log_clean
echo "guest time: $((SECONDS - T0)) s"
echo "demo: PASS"
