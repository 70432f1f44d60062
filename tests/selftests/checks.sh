# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# What is checked on a mount.  Each function returns non-zero with the reason in $WHY.
# Sourced by run.sh after lib.sh.

# The sizes at which something changes: nothing, one fragment's payload, one message, the
# offload threshold, a page list, the largest inline message, one and several registrations.
SIZES="0 1 1340 1364 4096 65536 173910 1048576 8388608 9437184"

# local_share: can the server's side of a file be looked at from here?  Not with two guests.
local_share() { [ "$TOPOLOGY" != D ]; }

# random_pool: 9 MiB and a bit of random bytes that all files are cut from.
random_pool() { [ -s /tmp/pool ] || head -c 9437185 /dev/urandom >/tmp/pool; }

sum() { sha256sum <"$1" | cut -d' ' -f1; }

# one_size <n>: a file of n bytes goes in, is right at the server, and comes back.
one_size() {
	head -c "$1" /tmp/pool >/tmp/want
	try 60 dd if=/tmp/want of=$MNT/f bs=4M iflag=fullblock status=none || return
	! local_share || cmp -s /tmp/want $SHARE/f || why "size $1: the server holds something else" || return
	try 60 dd if=$MNT/f of=/tmp/got bs=4M iflag=fullblock status=none || return
	cmp -s /tmp/want /tmp/got || why "size $1: came back different" || return
	rm $MNT/f || why "size $1: cannot be removed"
}

# sizes: each of SIZES and one byte less and more.
check_sizes() {
	local n d
	random_pool
	for n in $SIZES; do
		for d in -1 0 1; do
			[ $((n + d)) -ge 0 ] || continue
			one_size $((n + d)) || return
		done
	done
}

# tree: many small files, renamed and deleted.
check_tree() {
	mkdir -p /tmp/small
	cp /usr/include/*.h /tmp/small/
	cp -r /tmp/small $MNT/tree || why "copying a tree in failed" || return
	diff -r /tmp/small $MNT/tree || why "the tree reads back different" || return
	mv $MNT/tree $MNT/moved && mv $MNT/moved/stdio.h $MNT/moved/renamed.h || why "rename failed" || return
	cmp -s /usr/include/stdio.h $MNT/moved/renamed.h || why "the renamed file is not what it was" || return
	rm -r $MNT/moved && [ -z "$(ls -A $MNT)" ] || why "delete failed"
}

# listing: ls -l of 2,000 entries.
check_listing() {
	local n where=$MNT
	! local_share || where=$SHARE
	mkdir $where/many && (cd $where/many && seq -f 'entry-%04g-with-a-name-of-some-length' 2000 | xargs touch)
	n=$(timeout 300 ls -l $MNT/many | grep -c entry-) || why "ls -l failed" || return
	[ "$n" -eq 2000 ] || why "ls -l shows $n of 2000 entries" || return
	rm -r $where/many
}

# fio: eight parallel writers and readers; every block carries its own checksum.
check_fio() {
	mkdir -p $MNT/fio
	run_fio verify --rw=randwrite --bsrange=4k-512k --do_verify=1 &&
		run_fio mixed --rw=randrw --bs=4k --io_size=256k || return
	rm -r $MNT/fio
}

# run_fio <name> <options...>
run_fio() {
	local log=$RUN/fio-$1.log
	try 240 fio --name="$1" --directory=$MNT/fio --numjobs=8 --size="${FIO_SIZE:-2m}" --direct=1 --ioengine=psync \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --group_reporting --output="$log" "${@:2}" && return
	WHY="fio $1: ${WHY##*: }; $(grep -m1 -iE 'error|bad|fail' "$log")"
	return 1
}

# rdma: the mount is what it claims to be, and bytes went through the RDMA device.
check_rdma() { over_rdma && [ "$(rdma_sends)" -gt 0 ] || why "the RDMA device counts no sends"; }

# rdma_sends: siw keeps no counters that are worth reading; being CONNECTED has to do there.
rdma_sends() {
	if [ "$TOPOLOGY" = C ]; then echo 1; else cat "/sys/class/infiniband/$(rdma_name)/ports/1/hw_counters/rdma_sends"; fi
}

# channels: a multichannel mount really has two RDMA channels.
# rules: X20
check_channels() {
	local n
	wait_for 30 two_channels || { n=$(rdma_channels); why "$n RDMA channels instead of 2"; }
}

# DebugData shows the transport of the first channel only; each channel logs its own.
rdma_channels() { log_since | grep -c 'RDMA transport established'; }
two_channels() { [ "$(rdma_channels)" -ge 2 ]; }

# already-loaded: another smbdirect in the way is told as such, and then it is still there.
test_already_loaded() {
	insert "$PEERS/c/smbdirect.ko" || return
	! load_modules || why "a second smbdirect was loaded beside the first" || return
	[[ $WHY == *"already loaded"* ]] || why "the reason given was: $WHY" || return
	unload_modules && topology_down
}

# device: one gets another name, goes while a mount writes over it (R19), and comes back; the writer
# goes on then, and reads what it wrote.
# rules: R19
test_device() {
	topology_up A && load_modules && server_start && random_pool || return
	try 10 rdma dev set rxe0 name rxe7 || return
	log_since | grep -q 'smbdirect.*rxe7' || why "the new name is not in the log" || return
	smb_mount hard && one_size 65536 && mkdir $MNT/fio || return
	rm -f /tmp/writer
	(FIO_SIZE=4m run_fio device --rw=randwrite --bs=64k --do_verify=1; echo "$WHY" >/tmp/writer) &
	sleep 3
	try 30 rdma link delete rxe7 && try 10 rdma link add rxe0 type rxe netdev dummy0 || return
	wait_for 200 test -e /tmp/writer || return
	[ -z "$(</tmp/writer)" ] || why "$(</tmp/writer)" || return
	rm -r $MNT/fio && one_size 1048576 && smb_umount && server_stop && unload_modules && topology_down
}

# wire: capture a mount whose data all travels in fragments, with the client's counters when all is
# quiet; the host lets others judge it (tests/judges).  DebugData is the same before and after the end
# of the capture, so nothing is missing from it.
test_wire() {
	local cap
	topology_up C && load_modules && server_start && random_pool || return
	dumpcap -q -i any -f 'tcp port 5445' -B 64 -w /tmp/wire.pcapng >"$RUN/dumpcap.log" 2>&1 &
	cap=$!
	wait_for 20 grep -q '^File:' "$RUN/dumpcap.log" && smb_mount sign || return
	one_size 1 && one_size 5000 && one_size 60000 && cp /usr/include/stdio.h $MNT/ && ls -l $MNT >/dev/null || return
	sleep 3 # cifs closes files later
	debug_block >"$RUN/wire.debugdata"
	kill -INT $cap
	wait $cap
	grep -q '/0 (pcap:0/dumpcap:0' "$RUN/dumpcap.log" || why "the capture lost packets" || return
	debug_block | cmp -s - "$RUN/wire.debugdata" || why "messages went on after the end" || return
	cp /tmp/wire.pcapng "$RUN/" && rm $MNT/stdio.h && smb_umount && server_stop && unload_modules && topology_down
}

# serve: the server of a pair of guests; the client leaves a file when it is done, the host one
# when it is not coming any more.
test_serve() {
	topology_up S && load_modules && server_start || return
	wait_for 900 served && server_stop && unload_modules && topology_down
}

check_over() { touch $MNT/done; }

served() { [ -e $SHARE/done ] || [ -e "$RUN/stop" ]; }

# sealed, signed: what the client says of its session.
check_sealed() { grep -q 'Status: 1 type: DISK.* encrypted' /proc/fs/cifs/DebugData || why "the share is not encrypted"; }
check_signed() { grep -q 'Security type:.* signed' /proc/fs/cifs/DebugData || why "the session is not signed"; }
