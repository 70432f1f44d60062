# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# Faults that strike while programs write to a hard mount and read back.  No error may reach them, every
# byte must be right, and afterwards all ends as if nothing had been.  How long it took from the repair to
# the first new I/O is told ("# recovery").  Sourced by run.sh after checks.sh.

# Seconds of silence after which the client asks whether the server is there.  As cifs parameters; the
# defaults are two minutes for RDMA and one for SMB.
KEEPALIVE=5

# struck <seconds> <fault> [topology]
struck() {
	local fio=$(($1 + 30))
	topology_up "${3:-F}" && load_modules && serve && random_pool || return
	echo $KEEPALIVE >/proc/fs/cifs/smbd_keep_alive_interval
	smb_mount "hard,echo_interval=$KEEPALIVE" && one_size 65536 && mkdir $MNT/fio || return
	beside writers "$fio"
	sleep 5
	"${2}_strikes" || return
	sleep "$1"
	[ ! -e /tmp/beside ] || why "the writers were done before the end of the fault: $(</tmp/beside)" || return
	"${2}_ends" || return
	answered 240 || return
	echo "# recovery $ANSWER ms"
	joined $((fio + 300)) && rm -r $MNT/fio $MNT/probe && one_size 1048577 && smb_umount && take_down
}

# answered <seconds>: the first write that is; ANSWER is how long it took, in milliseconds. Not fsync: cifs may repeat that with
# the handle of before a reconnect.
answered() {
	local start=${EPOCHREALTIME/./}
	try "$1" dd if=/tmp/pool of=$MNT/probe bs=4k count=1 oflag=direct status=none || return
	ANSWER=$(((${EPOCHREALTIME/./} - start) / 1000))
}

# writers <seconds> [fio options...]: four of them, each reads what it wrote before long, and checks it.
writers() {
	try $(($1 + 300)) fio --name=struck --directory=$MNT/fio --numjobs=4 --size=1m --bs=64k --rw=randwrite --direct=1 \
		--ioengine=psync --time_based --runtime="$1" --verify=crc32c --verify_backlog=16 --verify_fatal=1 \
		--verify_state_save=0 --group_reporting --output="$RUN/fio-struck.log" "${@:2}" ||
		why "the writers ended with $(sed -n 's/.*error=\(.*\)).*/\1/p' "$RUN/fio-struck.log" | head -n1): $WHY"
}

# on_switch <command...>
on_switch() { try 10 ip netns exec switch "$@"; }

# both <tc arguments...>: on what the switch sends to either end; with siw, which does not know network
# namespaces, in topology C on the way from this host to itself.
both() {
	if [ "$TOPOLOGY" = C ]; then
		try 10 tc "$1" "$2" dev lo "${@:3}"
	else
		on_switch tc "$1" "$2" dev "$UPLINK" "${@:3}" && on_switch tc "$1" "$2" dev p1 "${@:3}"
	fi
}

# ---- the faults, each as <name>_strikes and <name>_ends ------------------------------------------

# A cable beyond the switch is pulled.
link_strikes() { on_switch ip link set "$UPLINK" nomaster; }
link_ends() { on_switch ip link set "$UPLINK" master br0; }

# With siw only, see Documentation/testing.
address_strikes() { try 10 ip addr del $SERVER/24 dev dummy0; }
address_ends() { try 10 ip addr add $SERVER/24 dev dummy0; }

loss_strikes() { both qdisc add root netem loss "$LOSS%"; }
loss_ends() { both qdisc del root; }

# rxe warns of its own completer when acknowledgements arrive out of order; it goes on.
# shellcheck disable=SC2034 # by run.sh
tolerated_fault_disorder='WARNING: drivers/infiniband/sw/rxe/rxe_comp.c'
# A packet in ten is late, so that others overtake it, and one in a hundred is damaged.
disorder_strikes() { both qdisc add root netem delay 2ms reorder 90% 50% corrupt 1%; }
disorder_ends() { both qdisc del root; }

# Everything vanishes, as with a peer that lost its power: nobody says good-bye.
silence_strikes() { both qdisc add root netem loss 100%; }
silence_ends() { both qdisc del root; }

# RDMA's packets vanish, other TCP's pass.
rdma_lost_strikes() {
	both qdisc add clsact || return
	if [ "$KIND" = siw ]; then
		drop tcp dst_port 5445 && drop tcp src_port 5445
	else
		drop udp dst_port 4791
	fi
}
rdma_lost_ends() { both qdisc del clsact; }

# drop <protocol> <port...>
drop() { both filter add egress protocol ip flower ip_proto "$@" action drop; }

# Removal under load takes 10 s at most (R19).
server_device_strikes() { try 10 rdma link delete "${KIND}0"; }
server_device_ends() { try 10 rdma link add "${KIND}0" type "$KIND" netdev "$(server_netdev)"; }
server_netdev() { if [ -e /sys/class/net/eth0 ]; then echo eth0; else echo veth0; fi; }

client_device_strikes() { try 10 "${NETNS[@]}" rdma link delete "${KIND}1"; }
client_device_ends() { try 10 "${NETNS[@]}" rdma link add "${KIND}1" type "$KIND" netdev veth1; }

server_stop_strikes() { try 30 ksmbd.control --shutdown && wait_for 20 server_gone "$MOUNTD"; }
server_stop_ends() { server_start; }

server_killed_strikes() { try 10 pkill -9 ksmbd.mountd; }
server_killed_ends() { try 30 ksmbd.control --shutdown; wait_for 20 server_gone "$MOUNTD" && server_start; }

server_module_strikes() { server_stop_strikes && wait_for 30 rmmod ksmbd; }
server_module_ends() { insert "$PEERS/ksmbd.ko" && server_start; }

# With two guests the other one is told what to do to itself, and for how long: ORDER.
order_strikes() { try 10 sh -c "echo $ORDER >$MNT/order"; }
order_ends() { :; }

# ---- power ----------------------------------------------------------------------------------

# The client's half: writers on a hard mount whose server dies and comes back with its disk. The disk is the
# witness of when: the server is gone once the client's file is on it.
test_power() {
	local start
	topology_up D && load_modules && random_pool && serve && smb_mount hard,echo_interval=$KEEPALIVE &&
		mkdir $MNT/fio || return
	beside writers 120
	sleep 10
	start=${EPOCHREALTIME/./}
	# Not answered before the server is back.
	try 10 touch $MNT/strike
	sleep 15
	answered 300 || return
	echo "# away and back within $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	joined 600 && one_size 1048577 && smb_umount && take_down
}

# The server's half, twice: until it is struck, and (AGAIN) until the client is done.
test_power_serve() {
	try 10 modprobe virtio_blk && try 10 modprobe ext4 && wait_for 10 test -b /dev/vda && mkdir -p $SHARE || return
	[ -n "${AGAIN:-}" ] || try 60 mkfs.ext4 -q /dev/vda || return
	# What was answered must be there after the power is back.
	try 60 mount -o sync /dev/vda $SHARE || return
	rm -f $SHARE/strike
	topology_up S && load_modules && server_start || return
	[ -n "${AGAIN:-}" ] || { wait_for 600 test -e $SHARE/strike && echo b >/proc/sysrq-trigger; }
	wait_for 900 served && take_down
}

# ---- other mounts ---------------------------------------------------------------------------

# second_link: another cable between client and server, 10.0.1.0/24, not through the switch.
second_link() {
	cable veth2 veth3 10.0.1 &&
		try 10 rdma link add rxe2 type rxe netdev veth2 && try 10 "${NETNS[@]}" rdma link add rxe3 type rxe netdev veth3
}

# Its loss: cifs makes further channels in the host's namespace, so they run from the server's device to itself.
second_strikes() { try 10 rdma link delete rxe2; }
second_ends() { try 10 rdma link add rxe2 type rxe netdev veth2; }

# One of two RDMA channels is lost for a while: the first is silent, or the device of the second is gone. Those who write notice nothing, new
# work goes over the other, and when the link is back so is the channel. (A TCP channel beside an RDMA channel
# there is not: cifs does not mix them.)
channel_lost() {
	local before
	topology_up F && second_link && load_modules && server_start && random_pool &&
		smb_mount hard,multichannel,max_channels=2,echo_interval=$KEEPALIVE && wait_for 30 channels_reach 2 || return
	mkdir $MNT/fio && wait_for 10 queue_pairs -eq 4 || return
	beside writers 90
	sleep 5
	"${1}_strikes" || return
	before=$(rdma_channels)
	# The requests that were on the lost channel are sent again on the other.
	try 120 dd if=/tmp/pool of=$MNT/during bs=64k count=16 conv=fsync status=none && one_size 1048577 &&
		wait_for 60 queue_pairs -lt 4 && "${1}_ends" &&
		wait_for 60 channels_reach $((before + 1)) || return
	joined 400 && rm -r $MNT/fio $MNT/during && one_size 9437185 && smb_umount && take_down
}

# Both ends of both channels make four. A short silence goes by unnoticed; this tells that one was lost.
queue_pairs() { test "$(rdma resource show qp | grep -c 'type RC .*state RTS')" "$@"; }

test_channel_lost() { channel_lost link; }
test_channel_second() { channel_lost second; }

# A soft mount tells its user that the server is away, and works again when it is back.
test_fault_soft() {
	topology_up F && load_modules && server_start && random_pool && smb_mount soft,echo_interval=$KEEPALIVE &&
		one_size 65536 && silence_strikes || return
	! try 120 dd if=/tmp/want of=$MNT/soft bs=64k count=1 conv=fsync status=none || why "a write went nowhere and succeeded" || return
	[[ $WHY != *"no end within"* ]] || return
	[[ $WHY == *"Host is down"* || $WHY == *"Resource temporarily unavailable"* || $WHY == *"Input/output error"* ]] ||
		why "the write ended with: $WHY" || return
	echo "# ${WHY##*: }"
	silence_ends && wait_for 60 one_size 65536 && smb_umount && take_down
}

# A peer that is gone is noticed by a mount that does nothing: within the keepalive's interval and the time for
# its answer, which cifs sets to 5 s. The log says so once, and names both ends.
test_fault_detect() {
	local start
	topology_up F && load_modules && server_start && random_pool || return
	echo $KEEPALIVE >/proc/fs/cifs/smbd_keep_alive_interval
	smb_mount hard,echo_interval=120 && one_size 65536 && connected && silence_strikes || return
	start=${EPOCHREALTIME/./}
	wait_for $((KEEPALIVE + 5 + 2)) eval '! connected' || return
	echo "# noticed after $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	told 1 && silence_ends && wait_for 60 one_size 65536 && smb_umount && take_down
}

# A mount whose server is silent can be unmounted, and the modules unloaded. By force: cifs waits for the
# server of a hard mount, until a signal, to say good-bye.
test_fault_unmount() {
	local start
	topology_up F && load_modules && server_start && random_pool && smb_mount hard,echo_interval=$KEEPALIVE &&
		one_size 65536 && silence_strikes || return
	start=$SECONDS
	try 60 umount -f $MNT || return
	echo "# unmounted after $((SECONDS - start)) s"
	wait_for 60 rmmod cifs && silence_ends && take_down
}

test_fault_link() { struck 5 link; }
test_fault_link_long() { struck 30 link; }
test_fault_link_minutes() { struck 180 link; }
test_fault_loss() { LOSS=1 struck 15 loss; }
test_fault_loss_heavy() { LOSS=10 struck 15 loss; }
test_fault_disorder() { struck 15 disorder; }
test_fault_silence() { struck 30 silence; }
test_fault_rdma_lost() { struck 30 rdma_lost; }
test_fault_server_device() { struck 5 server_device; }
test_fault_client_device() { struck 5 client_device; }
test_fault_server_stop() { struck 5 server_stop; }
test_fault_server_killed() { struck 5 server_killed; }
test_fault_server_module() { struck 5 server_module; }
test_far_link() { struck 5 link H; }
test_far_silence() { struck 30 silence H; }
test_far_loss() { LOSS=1 struck 15 loss H; }
test_far_rdma_lost() { struck 30 rdma_lost H; }
test_far_server_device() { ORDER="server_device 5" struck 6 order H; }
test_far_server_stop() { ORDER="server_stop 5" struck 6 order H; }
test_far_server_killed() { ORDER="server_killed 5" struck 6 order H; }
test_far_server_module() { ORDER="server_module 5" struck 6 order H; }
test_far_siw_link() { struck 5 link G; }
test_far_siw_silence() { struck 30 silence G; }
test_far_siw_loss() { LOSS=1 struck 15 loss G; }
test_far_siw_rdma_lost() { struck 30 rdma_lost G; }
test_far_siw_server_stop() { ORDER="server_stop 5" struck 6 order G; }
test_far_siw_server_killed() { ORDER="server_killed 5" struck 6 order G; }
test_far_siw_server_module() { ORDER="server_module 5" struck 6 order G; }
test_siw_fault_address() { struck 10 address C; }
test_siw_fault_loss() { LOSS=1 struck 15 loss C; }
test_siw_fault_loss_heavy() { LOSS=10 struck 15 loss C; }
test_siw_fault_disorder() { struck 15 disorder C; }
test_siw_fault_silence() { struck 30 silence C; }
test_siw_fault_rdma_lost() { struck 30 rdma_lost C; }
test_siw_fault_server_stop() { struck 5 server_stop C; }
test_siw_fault_server_killed() { struck 5 server_killed C; }
