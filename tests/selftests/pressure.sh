# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# Write-back when memory is short.  Sourced by run.sh.

# How many allocations of each kind may fail: more than do.
FAILURES=1000000

# fill_memory <MiB left>: a file in memory takes what is available; there is no swap.
fill_memory() {
	local available
	available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
	mount -t tmpfs -o size=100% hog /mnt/hog && try 120 dd if=/dev/zero of=/mnt/hog/f bs=1M count=$((available - $1)) status=none
}

# code <module> <file> <start> <end>: tell the two files where a module's code is; that of others lies close by.
code() {
	local start=/sys/module/$1/sections/.text
	cat $start >$3
	printf '0x%x' $(($(<$start) + $(size -A "$2" | awk '$1 == ".text" { print $2 }'))) >$4
}

# injects: allocations of our module are to fail; only the debug kernel can.
injects() { [ "$SANITIZER" = kasan ] && [ "$TRANSPORT" = rust ]; }

# fail_allocations <kind> <percent>: of those that our module asks for, but not when the server is the reason:
# it is the client's write-back that frees memory.
fail_allocations() {
	local d=/sys/kernel/debug/$1
	injects || return 0
	[ -e $d/require-start ] || why "the kernel cannot choose whose allocations fail" || return
	code smbdirect "$SMBDIRECT_KO" $d/require-start $d/require-end
	code ksmbd "$PEERS/ksmbd.ko" $d/reject-start $d/reject-end
	echo 32 >$d/stacktrace-depth
	echo $FAILURES >$d/times
	echo 0 >$d/verbose
	[ ! -e $d/min-order ] || echo 0 >$d/min-order
	[ ! -e $d/ignore-gfp-wait ] || echo 0 >$d/ignore-gfp-wait
	[ ! -e $d/ignore-gfp-highmem ] || echo 0 >$d/ignore-gfp-highmem
	[ ! -e $d/cache-filter ] || echo 0 >$d/cache-filter
	echo "$2" >$d/probability
}

# failures_over <kind>: no more of them; there must have been some.
failures_over() {
	local d=/sys/kernel/debug/$1 left
	injects || return 0
	echo 0 >$d/probability
	left=$(<$d/times)
	echo "# $1: $((FAILURES - left)) allocations failed"
	[ "$left" -lt $FAILURES ] || why "no allocation of ours failed ($1)"
}

# Four writers fill the page cache while there is next to no memory left; all must reach the server. A failed
# allocation in the middle of a connection's life may end it; cifs, on a hard mount, then tries again.
# rules: R45
test_pressure() {
	local i jobs=()
	topology_up A && load_modules && server_start && random_pool && smb_mount hard,cache=loose || return
	# What the server will hold is there before memory gets short.
	for i in 1 2 3 4; do try 60 dd if=/dev/zero of=$SHARE/w$i bs=1M count=64 status=none || return; done
	mkdir -p /mnt/hog && fill_memory 150 || return
	fail_allocations failslab 5 && fail_allocations fail_page_alloc 5 || return
	for i in 1 2 3 4; do
		writer $i &
		jobs+=($!)
	done
	wait "${jobs[@]}"
	failures_over failslab && failures_over fail_page_alloc || return
	umount /mnt/hog
	[ ! -s /tmp/pressed ] || why "$(head -n1 /tmp/pressed)" || return
	for i in 1 2 3 4; do
		written | cmp -s -n $((7 * 9437185)) - $SHARE/w$i || why "writer $i: the server holds something else" || return
	done
	rm $SHARE/w? && smb_umount && take_down
}

# written: what each of them writes, seven times the pool.
written() { local i; for i in 1 2 3 4 5 6 7; do cat /tmp/pool; done; }

# writer <n>: through the page cache.
writer() {
	local WHY=
	written | {
		try 600 dd of=$MNT/w"$1" bs=1M iflag=fullblock conv=notrunc,fsync status=none ||
			echo "writer $1: $WHY" >>/tmp/pressed
	}
}
