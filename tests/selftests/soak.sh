#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2086
#
# Mixed load on a hard mount, with faults from a seeded schedule, for hours:	soak.sh <seconds> <seed>
# (in the guest, as root).  Leaves in $RUN: throughput.tsv (second, MiB/s over the cable, KiB the kernel
# has), faults.tsv (begin, end of the fault, first answer after it, name), counters (at the end, with no
# consumer left), and as its output "# ..." lines and what failed.

here=$(cd "$(dirname "$0")" && pwd)
for f in lib checks faults crowd; do
	# shellcheck source=/dev/null
	. "$here/$f.sh"
done
# shellcheck disable=SC2034 # by loss_strikes
LOSS=2 KEEPALIVE=5
# shellcheck disable=SC2034 # by log_clean: rxe's own, when packets get lost
TOLERATED='WARNING: drivers/infiniband/sw/rxe/rxe_comp.c'
FAULTS=(link loss silence rdma_lost server_device client_device server_stop server_killed server_module)

# load <seconds>: writers that read back what they wrote; a tree that comes and goes; files of any size.
load() {
	local until=$((SECONDS + $1)) jobs=()
	mkdir -p $MNT/fio
	# cifs looks whether a file has to be opened again, and then waits for the reconnect with the handle of before: once in
	# an hour or two a read of a restarted server hears EBADF. The next one does not.
	(writers "$1" --continue_on_error=read --ignore_error=EBADF || echo "fio: $WHY" >>/tmp/failed) &
	jobs+=($!)
	while [ $SECONDS -lt $until ]; do trees || { echo "tree: $WHY" >>/tmp/failed; break; }; done &
	jobs+=($!)
	while [ $SECONDS -lt $until ]; do any_size || { echo "size: $WHY" >>/tmp/failed; break; }; done &
	jobs+=($!)
	wait "${jobs[@]}"
}

# cifs sends a creation again whose answer the fault took, and is told that the file exists; tar, unlike cp,
# then replaces the file. Before it sets a file's times cifs flushes it, and repeats that flush after a
# reconnect with the handle of before, which a restarted server does not know (EBADF); so no times are set.
trees() {
	mkdir -p $MNT/tree && tar -C /tmp/small -c . | tar -C $MNT/tree -x -m --no-same-owner --no-same-permissions || why "cannot be copied in" || return
	diff -r /tmp/small $MNT/tree || why "reads back different" || return
	# So it does with a removal, whose object is not there the second time.
	rm -rf $MNT/tree && [ ! -e $MNT/tree ] || why "cannot be removed"
}

any_size() {
	local bytes=$((RANDOM * 32 + RANDOM))
	head -c $bytes /tmp/pool >/tmp/any
	cp /tmp/any $MNT/any || why "$bytes bytes cannot be copied in" || return
	cmp /tmp/any $MNT/any || why "$bytes bytes come back different"
}

# sample <seconds>: the cable's bytes and the kernel's memory, every five seconds.
sample() {
	local until=$((SECONDS + $1)) d=/sys/class/net/veth0/statistics before now
	before=$(($(<$d/rx_bytes) + $(<$d/tx_bytes)))
	while [ $SECONDS -lt $until ]; do
		sleep 5
		now=$(($(<$d/rx_bytes) + $(<$d/tx_bytes)))
		printf '%d\t%d.%02d\t%d\n' $((SECONDS - START)) $(((now - before) / 5242880)) \
			$(((now - before) * 100 / 5242880 % 100)) "$(used_memory)" >>"$RUN/throughput.tsv"
		before=$now
	done
}

# strike <fault> <seconds>
strike() {
	local begin=$((SECONDS - START)) end
	"${1}_strikes" || return
	sleep "$2"
	end=$((SECONDS - START))
	"${1}_ends" || return
	answered 240 || return
	printf '%d\t%d\t%d\t%s\n' "$begin" "$end" "$ANSWER" "$1" >>"$RUN/faults.tsv"
}

# faults <until>: one every minute or so; the same seed gives the same schedule.
faults() {
	local fault
	while [ $((SECONDS + 150)) -lt "$1" ]; do
		sleep $((20 + RANDOM % 60))
		fault=${FAULTS[RANDOM % ${#FAULTS[@]}]}
		strike "$fault" $((3 + RANDOM % 20)) || { echo "$fault: $WHY" >>/tmp/failed; return; }
	done
}

set_up() {
	random_pool
	mkdir -p /tmp/small
	cp /usr/include/*.h /tmp/small/
	topology_up F && load_modules && server_start && smb_mount hard,echo_interval=$KEEPALIVE
}

finish() {
	rm -rf $MNT/fio $MNT/tree $MNT/any $MNT/probe
	smb_umount && server_stop && try 30 rmmod cifs && try 30 rmmod ksmbd && cp $DEBUG/counters "$RUN/counters" &&
		unload_modules && topology_down && log_clean
}

RANDOM=$2 START=$SECONDS
: >/tmp/failed
log_mark
set_up || { echo "not ok: set-up: $WHY"; exit 1; }
START=$SECONDS
load "$1" &
loads=$!
sample "$1" &
faults $((SECONDS + $1))
wait $loads
misread=$(sed -n 's/.*errors *: total=\([0-9]*\),.*/\1/p' "$RUN/fio-struck.log")
echo "# load ended after $((SECONDS - START)) s; ${misread:-0} reads heard EBADF of a server that was restarted"
finish || echo "end: $WHY" >>/tmp/failed
sed 's/^/not ok: /' /tmp/failed
[ ! -s /tmp/failed ] && echo "ok"
