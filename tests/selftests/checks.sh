# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# What is checked on a mount.  Each function returns non-zero with the reason in $WHY.
# Sourced by run.sh after lib.sh.

# The sizes at which something changes: nothing, one fragment's payload, one message, the
# offload threshold, a page list, the largest inline message, one and several registrations.
SIZES="0 1 1340 1364 4096 65536 173910 1048576" FIO_SIZE=1m ENTRIES=500
# With sanitizers a MiB takes seconds; one that needs several registrations stays.
if [ -n "$SANITIZER" ]; then
	FIO_SIZE=256k ENTRIES=200
elif [ -n "$LONG" ]; then
	SIZES+=" 8388608 9437184" FIO_SIZE=2m ENTRIES=2000
else
	SIZES+=" 4194304"
fi

# local_share: can the server's side of a file be looked at from here?  Not with two guests.
local_share() { [[ $TOPOLOGY != [DGH] ]]; }

# take_down: what topology_up, load_modules and, on this side, server_start have set up.
take_down() { { ! local_share || server_stop; } && unload_modules && topology_down; }

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

# listing: ls -l of a large directory.
check_listing() {
	local n where=$MNT
	! local_share || where=$SHARE
	mkdir $where/many && (cd $where/many && seq -f 'entry-%04g-with-a-name-of-some-length' "$ENTRIES" | xargs touch)
	n=$(timeout 300 ls -l $MNT/many | grep -c entry-) || why "ls -l failed" || return
	[ "$n" -eq "$ENTRIES" ] || why "ls -l shows $n of $ENTRIES entries" || return
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
	try 240 fio --name="$1" --directory=$MNT/fio --numjobs=8 --size=$FIO_SIZE --direct=1 --ioengine=psync \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --group_reporting --output="$log" "${@:2}" && return
	WHY="fio $1: ${WHY##*: }; $(grep -m1 -iE 'error|bad|fail' "$log")"
	return 1
}

# rdma: the mount is what it claims to be, and bytes went through the RDMA device.
check_rdma() { over_rdma && [ "$(rdma_sends)" -gt 0 ] || why "the RDMA device counts no sends"; }

# rdma_sends: siw keeps no counters that are worth reading; being CONNECTED has to do there.
rdma_sends() {
	if [ "$KIND" = siw ]; then echo 1; else cat "/sys/class/infiniband/${KIND}0/ports/1/hw_counters/rdma_sends"; fi
}

# channels: a multichannel mount really has two RDMA channels.
# rules: X20
check_channels() {
	local n
	wait_for 30 channels_reach 2 || { n=$(rdma_channels); why "$n RDMA channels instead of 2"; } || return
	# A channel that is made again is told as well; ours shows those that are there.
	[ "$TRANSPORT" = c ] || n=$(grep -c ': initiator CONNECTED' $DEBUG/connections)
	[ "${n:-2}" -ge 2 ] || why "$n connections instead of 2"
}

# DebugData shows the transport of the first channel only; each channel logs its own.
rdma_channels() { log_since | grep -cE 'RDMA transport (re-)?established'; }
channels_reach() { [ "$(rdma_channels)" -ge "$1" ]; }

# beside <function...>: run it beside the test; joined <seconds>: it is done, and nothing was wrong.
beside() {
	rm -f /tmp/beside
	# shellcheck disable=SC2030 # the shell beside has its own
	(WHY='' && "$@"; echo "$WHY" >/tmp/beside) &
}

joined() {
	wait_for "$1" test -e /tmp/beside || return
	[ -z "$(</tmp/beside)" ] || why "$(</tmp/beside)"
}

# in-use: a module with users is not unloaded, and those who work do not notice that it was tried.
test_in_use() {
	topology_up A && load_modules && server_start && random_pool && smb_mount && mkdir $MNT/fio || return
	beside run_fio in-use --rw=randwrite --bs=64k --do_verify=1
	sleep 2
	! try 20 rmmod smbdirect || why "smbdirect went from under a mount" || return
	[[ $WHY == *"in use"* ]] || why "rmmod says: $WHY" || return
	joined 200 && rm -r $MNT/fio && one_size 1048577 && smb_umount && take_down
}

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
	FIO_SIZE=4m beside run_fio device --rw=randwrite --bs=64k --do_verify=1
	sleep 3
	[ ! -e /tmp/beside ] || why "the writers were done before the device went: $(</tmp/beside)" || return
	try 30 rdma link delete rxe7 && try 10 rdma link add rxe0 type rxe netdev dummy0 && joined 200 || return
	rm -r $MNT/fio && one_size 1048576 && smb_umount && take_down
}

# spent <operations> <bounds> <command...>: what our counters grow by per operation, each within its bound; bounds
# are words "<counter><=<bound>" or ">=", both ends together.
spent() {
	local operations=$1 bounds=$2 wrong
	shift 2
	cat $DEBUG/counters >/tmp/counters-before
	try 120 "$@" || return
	cat $DEBUG/counters >/tmp/counters-after
	wrong=$(awk -v operations="$operations" -v bounds="$bounds" '
		NR == FNR { before[$1] = $2; next }
		{ grown[$1] = ($2 - before[$1]) / operations }
		END {
			n = split(bounds, bound, " ")
			for (i = 1; i <= n; i++) {
				least = bound[i] ~ />=/
				split(bound[i], b, /[<>]=/)
				if (!(b[1] in grown) || (least ? grown[b[1]] < b[2] : grown[b[1]] > b[2]))
					print b[1], grown[b[1]], "instead of", bound[i]
			}
		}' /tmp/counters-before /tmp/counters-after)
	[ -z "$wrong" ] || why "per operation: ${wrong//$'\n'/, }"
}

# What small requests cost: nobody waits for a message, one send in many is signalled, receives are posted in chains,
# grants ride on data, memory is mapped once for each registration and never for a message; a read is two doorbells; nothing stalls, and
# nothing is allocated. A connection has no slab caches of its own.
# rules: P1 P2 P4 P6 P8 P14 P17
check_thrifty() {
	ours_only || return
	# Those that the kernel has merged with others are there by name as well.
	local slabs
	slabs=$(find /sys/kernel/slab -name '*smbdirect*' -printf '%f ')
	[ -z "$slabs" ] || why "slab caches: $slabs" || return
	local all="messages_sent<=2.1 messages_sent>=1.9 registered>=0.95 empty_sends<=0.1 receive_posts<=0.25 registered<=1.05 bounced<=0 maps<=1.05 allocations<=0.05 $NO_STALL"
	try 60 dd if=/tmp/pool of=$MNT/thrifty bs=1M count=2 conv=fsync status=none &&
		spent 400 "$all send_posts<=2.1 send_completions<=0.5" dd if=$MNT/thrifty of=/dev/null bs=4k count=400 iflag=direct status=none &&
		spent 400 "$all send_posts<=3.1 send_completions<=1.5" dd if=/tmp/pool of=$MNT/thrifty bs=4k count=400 oflag=direct conv=notrunc status=none &&
		spent 20 "${all/sent<=2.1/sent<=3} send_posts<=4 send_requests<=8 send_completions<=2" \
			dd if=$MNT/thrifty of=/dev/null bs=64k count=20 iflag=direct status=none && rm $MNT/thrifty
}
NO_STALL="waits_for_turn<=0.05 waits_for_credit<=0.05 waits_for_room<=0.05 waits_for_region<=0.05 waits_for_contexts<=0.05"

# The same where this end takes its registrations out of force: one request more, and its completion.
# rules: P8 P10
check_invalidates() {
	ours_only || return
	try 60 dd if=/tmp/pool of=$MNT/thrifty bs=1M count=2 conv=fsync status=none &&
		spent 400 "messages_sent<=2.1 send_posts<=3.1 send_completions<=1.5 invalidated<=1.05 invalidated>=0.95 maps<=1.05 $NO_STALL" \
			dd if=$MNT/thrifty of=/dev/null bs=4k count=400 iflag=direct status=none && rm $MNT/thrifty
}

# What a MiB costs that travels in messages, 783 of them with data: doorbells for chains of them, few completions of sends, few
# messages that only grant.
# rules: P2 P4 P6 P17
check_frugal() {
	ours_only || return
	try 60 dd if=/tmp/pool of=$MNT/thrifty bs=1M count=4 conv=fsync status=none &&
		spent 4 "messages_sent<=860 messages_sent>=780 empty_sends<=25 send_posts<=200 send_completions<=120 receive_posts<=200 maps<=0" \
			dd if=$MNT/thrifty of=/dev/null bs=1M count=4 iflag=direct status=none && rm $MNT/thrifty
}

# A module that was loaded with larger messages agrees on them with its like, and sends fewer. The C module has no such
# parameter.
# rules: P16
check_larger() {
	ours_only || return
	debug_block | grep -q 'max_send_size: 8136$' && debug_block | grep -q 'max_receive_size:8136$' ||
		why "DebugData does not show the sizes: $(debug_block | grep -o 'max_[a-z]*_size: *[0-9]*' | tr '\n' ' ')" || return
	# 1 MiB is 130 messages of data, each way, and 783 of the usual size.
	try 60 dd if=/tmp/pool of=$MNT/larger bs=1M count=2 conv=fsync status=none &&
		spent 2 "messages_sent<=180 messages_sent>=130" dd if=$MNT/larger of=/dev/null bs=1M count=2 iflag=direct status=none && rm $MNT/larger
}

# parameters: values that mean nothing are refused, and the log says so.
# rules: P16
test_parameters() {
	ours_only || return
	local size
	for size in 1 1363 8137 4294967295; do
		! insert "$SMBDIRECT_KO" max_message_size=$size || why "max_message_size=$size was taken" || return
		log_since | grep -q "max_message_size=$size is neither" || why "the log does not say why $size was refused" || return
	done
	! insert "$SMBDIRECT_KO" max_message_size=many || why "max_message_size=many was taken" || return
	insert "$SMBDIRECT_KO" max_message_size=1364 && try 20 rmmod smbdirect
}

# kinds: RoCE and iWARP in one machine. What a connection may do depends on the device it runs on, not on others.
# rules: U1 U2
test_kinds() {
	local SERVER=$SERVER
	topology_up A && insert "$PEERS/siw.ko" && dummy_interface dummy1 10.0.1.1 &&
		try 10 rdma link add siw0 type siw netdev dummy1 && load_modules && server_start && random_pool || return
	runs_on rxe0 && SERVER=10.0.1.1 && runs_on siw0 && take_down
}

# vectors: the two completion queues of a connection's end have one interrupt vector, and the ends, which are made
# by turns, have different ones.
# rules: P12
test_vectors() {
	local trace=/sys/kernel/tracing made
	ours_only || return
	topology_up A && load_modules && server_start && random_pool || return
	echo >$trace/trace
	echo 1 >$trace/events/rdma_core/cq_alloc/enable
	smb_mount && over_rdma && one_size 65536 || return
	echo 0 >$trace/events/rdma_core/cq_alloc/enable
	# "<task>-<pid> ... comp_vector=<n> poll_ctx=<where>": the pairs of a task.
	made=$(sed -n 's/^ *\([^ ]*\) .* comp_vector=\([0-9]*\) .*/\1 \2/p' $trace/trace | sort)
	[ "$(wc -l <<<"$made")" -eq 4 ] && [ "$(sort -u <<<"$made" | wc -l)" -eq 2 ] &&
		[ "$(cut -d' ' -f2 <<<"$made" | sort -u | wc -l)" -eq 2 ] || why "the queues' tasks and vectors: ${made//$'\n'/, }" || return
	smb_umount && take_down
}

# runs_on <device>: a mount of $SERVER has its queue pairs there, and nowhere else.
runs_on() {
	smb_mount && over_rdma && one_size 65536 || return
	[ "$(rdma resource show qp | awk '/type RC .*state RTS/ { print $2 }' | sort -u)" = "$1/1" ] ||
		why "queue pairs of the mount of $SERVER: $(rdma resource show qp | grep 'type RC')" || return
	smb_umount && wait_for 20 eval '! rdma resource show qp | grep -q "type RC .*state RTS"'
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
	cp /tmp/wire.pcapng "$RUN/" && rm $MNT/stdio.h && smb_umount && take_down
}

# leaks: kmemleak finds nothing that nobody points to any more; an object counts at the second look.
test_leaks() {
	local leaks=/sys/kernel/debug/kmemleak
	echo scan >$leaks && sleep 6 && echo scan >$leaks || why "kmemleak does not run" || return
	cp $leaks "$RUN/kmemleak"
	[ ! -s "$RUN/kmemleak" ] || why "$(grep -c '^unreferenced' "$RUN/kmemleak") leaked objects, see $RUN/kmemleak"
}

# serve: the server of a pair of guests; the client leaves a file when it is done, the host one
# when it is not coming any more.
test_serve() {
	topology_up S && load_modules && server_start || return
	wait_for 900 served && take_down
}

# obey: the same, for a client that orders faults, "<fault> <seconds>", by a file on the share.
# shellcheck disable=SC2034 # by run.sh
bound_obey=3600
test_obey() {
	local fault seconds
	topology_up T && load_modules && server_start || return
	until served; do
		sleep 1
		[ -s $SHARE/order ] || continue
		read -r fault seconds <$SHARE/order
		rm $SHARE/order
		"${fault}_strikes" && sleep "$seconds" && "${fault}_ends" || return
	done
	take_down
}

check_over() { touch $MNT/done; }

served() { [ -e $SHARE/done ] || [ -e "$RUN/stop" ]; }

# sealed, signed: what the client says of its session.
check_sealed() { grep -q 'Status: 1 type: DISK.* encrypted' /proc/fs/cifs/DebugData || why "the share is not encrypted"; }
check_signed() { grep -q 'Security type:.* signed' /proc/fs/cifs/DebugData || why "the session is not signed"; }

# What our module shows of its connections: both ends, connected, and of the credits each has given to
# the other as many are with the other as were not used.
check_shown() {
	ours_only || return
	local wrong
	wrong=$(awk '
		/^[^\t].*: (initiator|acceptor)/ && !/ CONNECTED$/ { print "not connected:", $0 }
		/^[^\t].*: initiator/ { initiators++ }
		/^[^\t].*: acceptor/ { acceptors++ }
		/^\t/ { n[$1] = $2 }
		/^\tcredits_used/ && n["credits_granted"] - n["credits_used"] != n["receive_credits"] {
			print "granted", n["credits_granted"], "used", n["credits_used"], "but out are", n["receive_credits"]
		}
		END { if (!initiators || initiators != acceptors) print initiators + 0, "initiators and", acceptors + 0, "acceptors" }
	' $DEBUG/connections)
	[ -z "$wrong" ] || why "${wrong//$'\n'/; }"
}
