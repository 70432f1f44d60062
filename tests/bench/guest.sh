#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2086
#
# The guest's part of "make bench":	guest.sh <pairs> <pattern of cases>	(in the guest, as root)
# C and ours take turns in one boot, with the same cifs and ksmbd. Every measurement leaves files in
# $RUN/bench, <set>.<case>.<pair>.<arm>.<kind>: what fio says (json) and, from before and after it, /proc/stat
# and the module's own counters. What they mean is worked out on the host, by report.py.
#	arm	whose connection: c, rust, larger (ours with larger messages), tcp (cifs without RDMA), nfs (NFS over RDMA)
#	set			topology and mount options, below

here=$(cd "$(dirname "$0")" && pwd)
for f in lib checks; do
	# shellcheck source=/dev/null
	. "$here/../selftests/$f.sh"
done
# shellcheck source=tests/bench/cases.sh
. "$here/cases.sh"
# shellcheck source=tests/bench/nfs.sh
. "$here/nfs.sh"
# shellcheck source=tests/bench/scale.sh
. "$here/scale.sh"
PAIRS=$1 PATTERN=$2 OUT=$RUN/bench
: "${PROFILE:=}"
OURS=$SMBDIRECT_KO

# wanted <set> [case]: is the case, or any of the set, asked for?
# shellcheck disable=SC2053 # the right side is a pattern
wanted() {
	local c
	[ $# -eq 1 ] || { [[ $1/$2 == $PATTERN ]]; return; }
	for c in $(cases_of "$1"); do ! wanted "$1" "$c" || return 0; done
	return 1
}

# sets <topology>: those that are asked for; mounts <topology>: without raw verbs, which mount nothing.
sets() {
	local s
	for s in $(sets_of "$1"); do ! wanted "$s" || echo "$s"; done
}
mounts() { sets "$1" | grep -v ^verbs-; }

# snapshot <file>: what the kernel and our module have counted so far.
snapshot() { cat /proc/stat $DEBUG/counters >"$1" 2>/dev/null || true; }

# measure <set> <case> <pair> <arm>
measure() {
	local base=$OUT/$1.$2.$3.$4
	sync
	[ -z "$PROFILE" ] || profile_begins
	snapshot /tmp/before
	"case_$2" || why "$base: $WHY" || return
	snapshot /tmp/after
	[ -z "$PROFILE" ] || profile_ends "$base"
	cp /tmp/result.json "$base.json" && cp /tmp/before "$base.before" && cp /tmp/after "$base.after"
}

# The counted clock ticks with instructions, so a sample every 200 us is one every 100,000 instructions.
profile_begins() {
	perf record -q -g -a -c 200000 -e cpu-clock:k -o /tmp/perf.data sleep 100000 >/dev/null 2>&1 &
	PROFILER=$!
	wait_for 60 pgrep -P $PROFILER sleep
}

# profile_ends <file>: by task, by function, and who calls the first of these.
profile_ends() {
	pkill -TERM -P $PROFILER sleep
	wait $PROFILER
	samples comm -g none >"$1.profile"
	samples symbol -g none | head -n 80 >>"$1.profile"
	samples symbol -g caller,0.05,callee,function,percent --max-stack 8 | head -n 400 >>"$1.profile"
}

# samples <by> [options...]
samples() { perf report -i /tmp/perf.data --stdio --no-children --sort "$@" 2>/dev/null | grep -v '^$\|^#'; }

# job <rw> <block size> <jobs> <I/Os of a job>: on the file that is there.
job() {
	try 3000 fio --name=bench --filename=$MNT/data --size=64m --direct=1 --ioengine=psync --thread --rw="$1" --bs="$2" \
		--numjobs="$3" --number_ios="$4" --norandommap --randseed=7 --fallocate=none --group_reporting \
		--output-format=json --output=/tmp/result.json
}

# mounted <set> <pair> <arm>: the cases of one mount, after a warm-up: the kernel makes workers for so many requests at
# a time once, and they stay.
mounted() {
	local c
	mkdir -p $MNT
	mount_$3 "$1" &&
		job randread 4k 32 8 && job read 1m 1 4 &&
		try 300 dd if=/dev/zero of=$MNT/warm bs=4k count=50 conv=fsync status=none || return
	for c in $(cases_of "$1"); do
		! wanted "$1" "$c" || measure "$1" "$c" "$2" "$3" || return
	done
	smb_umount
}

cifs_mount() { try 300 mount -t cifs //$SERVER/share $MNT -o "${2:-}username=root,password=pw,cache=none,$(options_of "$1")"; }
mount_tcp() { cifs_mount "$1"; }
mount_c() { cifs_mount "$1" rdma, && over_rdma; }
mount_rust() { mount_c "$1"; }
mount_larger() { mount_c "$1"; }
mount_nfs() { nfs_mount; }

# start <arm>, stop <arm>: load and serve; the reverse.
# shellcheck disable=SC2034 # what is set is read by lib.sh
start() {
	PARAMETERS='' TRANSPORT=rust SMBDIRECT_KO=$OURS
	case $1 in
	nfs) nfs_start; return ;;
	rust) ;;
	larger) PARAMETERS=max_message_size=8136 ;;
	*) TRANSPORT=c SMBDIRECT_KO=$PEERS/c/smbdirect.ko ;;
	esac
	load_modules && server_start
}
stop() {
	[ "$1" != nfs ] || { nfs_stop; return; }
	server_stop && unload_modules
}

# arm <topology> <pair> <arm>: every mount of the topology that the arm has.
arm() {
	local set sets=()
	for set in $(mounts "$1"); do ! has "$3" "$set" || sets+=("$set"); done
	[ ${#sets[@]} -gt 0 ] || return 0
	start "$3" && try 60 dd if=/dev/zero of=$SHARE/data bs=1M count=64 status=none || return
	for set in "${sets[@]}"; do mounted "$set" "$2" "$3" || return; done
	rm $SHARE/data
	stop "$3"
}

# floor: what the device can do without any of us: raw verbs between two processes that sleep for completions.
floor() {
	local c
	wanted "verbs-$KIND" || return 0
	try 60 modprobe ib_uverbs || return
	for c in "${VERBS[@]}"; do
		# shellcheck disable=SC2086 # words: name, program, bytes, iterations
		set -- $c
		! wanted "verbs-$KIND" "$1" || verbs "$@" || return
	done
}

# verbs <name> <program> <bytes> <iterations>: the two agree over a socket, which a program waits for; over rdma_cm they
# would spin.
verbs() {
	local options=(-e -F -s "$3" -n "$4")
	"$2" "${options[@]}" >/tmp/server.out 2>&1 &
	wait_for 60 eval "ss -ltn | grep -q :18515 || ! kill -0 $!" || return
	kill -0 $! || why "$2: $(tail -n2 /tmp/server.out)" || return
	try 3000 "$2" "${options[@]}" --out_json --out_json_file="$OUT/verbs-$KIND.$1.1.verbs.json" $SERVER && wait $!
}

# turns <topology>: each pair in the other order than the one before. What others do is asked once.
turns() {
	local pair a
	[ -n "$(mounts "$1")" ] || return 0
	for a in tcp larger nfs; do arm "$1" 1 $a || return; done
	for ((pair = 1; pair <= PAIRS; pair++)); do
		if [ $((pair % 2)) -eq 1 ]; then arm "$1" $pair c && arm "$1" $pair rust; else arm "$1" $pair rust && arm "$1" $pair c; fi ||
			return
	done
}

mkdir -p "$OUT"
log_mark
all() {
	local t
	for t in A E C; do
		[ -n "$(sets $t)" ] || continue
		topology_up $t && { [ $t != A ] || floor; } && turns $t && topology_down || { why "$t: $WHY"; return; }
	done
}
if [ "$PATTERN" = scale ]; then scale; else all; fi && log_clean || { echo "not ok $WHY"; exit 1; }
echo ok
