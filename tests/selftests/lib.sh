# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the guest's test programs share.  Sourced by a test that runs as root in the guest; the
# environment (TOP, RUN, KERNEL, PEERS, SMBDIRECT_KO, TRANSPORT) comes from scripts/guest.sh.
# Every function returns non-zero with a line in $WHY when it fails; nothing here exits.

WHY=
SERVER=10.0.0.1
SHARE=/srv/share
MNT=/mnt/a
# What our module shows.
DEBUG=/sys/kernel/debug/smbdirect
: "${DIALECT:=3.1.1}" "${PARAMETERS:=}" "${SLOW:=1}" "${SANITIZER:=}" "${LONG:=}"

# why <text>: remember the reason of a failure.
# shellcheck disable=SC2034 # read by the tests
why() {
	WHY=$*
	return 1
}

# ours_only: what the control does not have is not asked of it.
ours_only() { [ "$TRANSPORT" = rust ] || { why "only our module has this" || return 4; }; }

# try <seconds> <command...>: bounded; what it prints becomes the reason of its failure.  All bounds are
# for the stock kernel; SLOW times as long on this one.
try() {
	local t=$(($1 * SLOW)) out rc=0
	shift
	out=$(timeout -k 5 "$t" "$@" 2>&1) || rc=$?
	[ "$rc" -ne 0 ] || return 0
	if [ "$rc" -eq 124 ]; then
		out="no end within $t s"
		echo w >/proc/sysrq-trigger # what the tasks wait for, into the log
	fi
	why "$*: ${out##*$'\n'} (exit $rc)"
}

# wait_for <seconds> <command...>: poll until the command succeeds.
wait_for() {
	local end=$((SECONDS + $1 * SLOW))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { why "waited in vain for: $*"; return 1; }
		sleep 0.1
	done
}

# ---- modules -------------------------------------------------------------------------------

# insert <file.ko> [parameters]: load one file after the stock modules it depends on.
insert() {
	local dep
	for dep in $(modinfo -F depends "$1" | tr , ' '); do
		[ "$dep" = smbdirect ] || try 60 modprobe "$dep" || return
	done
	try 60 insmod "$@"
}

# load_modules: the module under test, then its users.
load_modules() {
	if [ -e /sys/module/smbdirect ]; then
		why "a smbdirect module is already loaded (from the kernel, or left over); unload it first"
		return 1
	fi
	# shellcheck disable=SC2086 # words
	insert "$SMBDIRECT_KO" $PARAMETERS && insert "$PEERS/ksmbd.ko" && insert "$PEERS/cifs.ko"
}

# unload_modules: must succeed: a module that stays in use has leaked something.  cifs lets go of
# itself a moment after the unmount, when its thread has ended.
unload_modules() {
	local m
	for m in cifs ksmbd smbdirect; do
		[ "$m" != smbdirect ] || balanced || return
		[ ! -e "/sys/module/$m" ] || wait_for 20 timeout -k 5 $((15 * SLOW)) rmmod "$m" || return
	done
}

# balanced: with no consumer left, what was made is gone, what was mapped is unmapped, what was posted came
# back, and no teardown took too long (our module counts); a work that is about to end may hold a connection
# for a moment.
balanced() {
	[ ! -e $DEBUG/counters ] || wait_for 5 even || why "the counters do not balance: $(uneven)"
}

even() { [ -z "$(uneven)" ]; }

# A teardown takes five seconds at most (R14). siw takes up to ten to give up a handshake, and destroys nothing before.
uneven() {
	local bound=5
	[ ! -e /sys/module/siw ] || bound=12
	awk '{ n[$1] = $2 }
		function pair(a, b) { if (n[a] != n[b]) print a, n[a], b, n[b] }
		END { pair("domains", "domains_gone"); pair("maps", "unmaps"); pair("receive_requests", "receive_completions")
			if (n["longest_teardown_ms"] > bound) print "longest_teardown_ms", n["longest_teardown_ms"] }
	' bound=$((bound * 1000 * SLOW)) $DEBUG/counters
}

# ---- topologies ----------------------------------------------------------------------------

# topology_up <A|B|C|D|E|F|G|H|S|T>: see Documentation/testing.  The MTU must be raised before the RDMA link.
# ${KIND}0 is the device the server listens on.
topology_up() {
	# shellcheck disable=SC2034 # read by the tests
	TOPOLOGY=$1
	NETNS=() KIND=rxe
	[[ $1 != [CG] ]] || KIND=siw
	UPLINK=p0
	case $1 in
	A) one_device ;;
	B) two_ends ;;
	C) insert "$PEERS/siw.ko" && one_device ;;
	D) network_card 10.0.0.2 rxe ;;
	G | H) switched_card ;;
	S) network_card $SERVER rxe ;;
	T) network_card $SERVER rxe siw ;;
	E) try 30 modprobe ib_core force_mr=1 && one_device ;;
	F) switched_ends ;;
	*) why "no topology $1" ;;
	esac
}

# one_device: client and server on one dummy interface.  It has several queues, because
# cifs opens a second channel on an interface only if ksmbd calls it capable of RSS.
one_device() {
	[ "$KIND" != rxe ] || try 60 modprobe rdma_rxe || return
	try 10 modprobe dummy numdummies=0 && dummy_interface dummy0 $SERVER &&
		try 10 rdma link add "${KIND}0" type "$KIND" netdev dummy0
}

# dummy_interface <name> <address>
dummy_interface() {
	try 10 ip link add "$1" numtxqueues 4 numrxqueues 4 type dummy && try 10 ip link set "$1" mtu 9000 up &&
		try 10 ip addr add "$2/24" dev "$1"
}

# two_ends: a veth pair, the far end in the network namespace "cl" where the mount is made.
two_ends() {
	try 60 modprobe rdma_rxe && try 10 modprobe veth &&
		try 10 ip netns add cl && cable veth0 veth1 10.0.0 && try 10 ip -n cl link set lo up && rdma_at_both_ends
}

# cable <interface> <interface in "cl"> <network>: addresses .1 and .2 of the network.
cable() {
	try 10 ip link add "$1" mtu 9000 type veth peer name "$2" mtu 9000 netns cl &&
		try 10 ip addr add "$3.1/24" dev "$1" && try 10 ip link set "$1" up &&
		try 10 ip -n cl addr add "$3.2/24" dev "$2" && try 10 ip -n cl link set "$2" up
}

# rdma_at_both_ends: one device on veth0, one on veth1 in "cl".
rdma_at_both_ends() {
	NETNS=(nsenter --net=/run/netns/cl)
	try 10 rdma link add "${KIND}0" type "$KIND" netdev veth0 &&
		try 10 "${NETNS[@]}" rdma link add "${KIND}1" type "$KIND" netdev veth1
}

# switched_ends: as two_ends, but with a switch between, in the network namespace "switch": when one of its
# ports p0 and p1 goes down, the interface behind it loses its carrier and keeps its address and routes.
switched_ends() {
	[ "$KIND" != rxe ] || try 60 modprobe rdma_rxe || return
	try 10 modprobe veth && try 10 modprobe bridge &&
		try 10 ip netns add cl && try 10 ip netns add switch &&
		try 10 ip -n switch link add br0 type bridge && try 10 ip -n switch link set br0 mtu 9000 up &&
		switched_end veth0 p0 9000 $SERVER && switched_end veth1 p1 9000 10.0.0.2 -n cl && rdma_at_both_ends
}

# switched_end <interface> <port> <MTU> <address> [ip options...]
switched_end() {
	try 10 ip "${@:5}" link add "$1" mtu "$3" type veth peer name "$2" mtu "$3" netns switch &&
		try 10 ip "${@:5}" addr add "$4/24" dev "$1" && try 10 ip "${@:5}" link set "$1" up &&
		try 10 ip -n switch link set "$2" master br0 up
}

# switched_card: as D with a switch between the client's interface and the card, for faults that its own
# interface must not notice: where that refuses a packet, rxe's queue pair for management stays broken.
switched_card() {
	try 10 modprobe veth && try 10 modprobe bridge && try 60 modprobe virtio_net || return
	[ "$KIND" != rxe ] || try 60 modprobe rdma_rxe || return
	[ "$KIND" != siw ] || insert "$PEERS/siw.ko" || return
	# shellcheck disable=SC2034 # read by the tests
	# It comes back from the namespace "switch" a moment after that is gone.
	wait_for 20 test -e /sys/class/net/eth0 && UPLINK=eth0 &&
		try 10 ip netns add switch && try 10 ip -n switch link add br0 type bridge &&
		try 10 ip -n switch link set br0 up && try 10 ip link set eth0 netns switch &&
		try 10 ip -n switch link set eth0 master br0 up && switched_end veth1 p1 1500 10.0.0.2 &&
		try 10 rdma link add "${KIND}0" type "$KIND" netdev veth1
}

# network_card <address> <kinds of device...>: one end of a cable between two guests; D is the client's, S and T
# the server's.
network_card() {
	local kind
	try 60 modprobe virtio_net && wait_for 20 test -e /sys/class/net/eth0 &&
		try 10 ip addr add "$1/24" dev eth0 && try 10 ip link set eth0 up || return
	for kind in "${@:2}"; do
		if [ "$kind" = rxe ]; then try 60 modprobe rdma_rxe; else insert "$PEERS/siw.ko"; fi &&
			try 10 rdma link add "${kind}0" type "$kind" netdev eth0 || return
	done
}

# topology_down: links, namespaces and the whole RDMA stack, so that the next one starts fresh.
topology_down() {
	local d
	for d in /sys/class/infiniband/*; do
		[ ! -e "$d" ] || try 30 rdma link delete "${d##*/}" || return
	done
	for d in dummy0 dummy1 veth0 veth1; do
		[ ! -e "/sys/class/net/$d" ] || try 10 ip link delete "$d" || return
	done
	[ ! -e /sys/class/net/eth0 ] || try 10 ip addr flush dev eth0 || return
	for d in /run/netns/*; do
		[ ! -e "$d" ] || try 10 ip netns delete "${d##*/}" || return
	done
	NETNS=()
	for d in siw rdma_rxe rdma_ucm rdma_cm iw_cm ib_cm ib_uverbs ib_uverbs_support ib_core; do
		[ ! -e "/sys/module/$d" ] || try 30 rmmod "$d" || return
	done
}

# ---- server --------------------------------------------------------------------------------

# server_start [global configuration lines]: ksmbd with one writable share on tmpfs.
server_start() {
	mkdir -p $SHARE /etc/ksmbd
	mountpoint -q $SHARE || mount -t tmpfs -o size=1500m tmpfs $SHARE || return
	cat >/etc/ksmbd/ksmbd.conf <<-CONF
		[global]
		server multi channel support = yes
		max ip connections = 1024
		max connections = 1024
		${1:-}
		[ipc$]
		comment = IPC share
		guest ok = yes
		max connections = 1024
		[share]
		max connections = 1024
		path = $SHARE
		read only = no
		valid users = root
		force user = root
	CONF
	rm -f /etc/ksmbd/ksmbdpwd.db /run/ksmbd.lock
	try 20 ksmbd.adduser -a -p pw root || return
	ksmbd.mountd -n >"$RUN/mountd.log" 2>&1 </dev/null &
	MOUNTD=$!
	wait_for 20 server_listens
}

server_listens() { ss -ltn | grep -q ":445 "; }

server_stop() {
	try 30 ksmbd.control --shutdown || return
	wait_for 20 server_gone "$MOUNTD" || return
	[ ! -e "$SHARE" ] || umount $SHARE 2>/dev/null || true
}

server_gone() { ! kill -0 "$1" && ! server_listens; }

# ---- client --------------------------------------------------------------------------------

# smb_mount [options] [mount point]: -o rdma from wherever the topology puts the client.
smb_mount() {
	mkdir -p "${2:-$MNT}"
	try "${MOUNT_BOUND:-90}" "${NETNS[@]}" mount -t cifs "//$SERVER/share" "${2:-$MNT}" \
		-o "rdma,vers=$DIALECT,username=root,password=pw,cache=none${1:+,$1}"
}

smb_umount() { try 60 umount "${1:-$MNT}"; }

# debug_block: the SMB Direct block of DebugData.
debug_block() { sed -n '/^SMBDirect protocol/,/^MR mr_ready/p' /proc/fs/cifs/DebugData; }

# over_rdma: is the mount really on RDMA?  Both the mount table and the transport must say so.
over_rdma() {
	grep -q "cifs .*[, ]rdma" /proc/mounts || why "the mount table does not say rdma" || return
	connected || why "DebugData shows no connected SMB Direct transport"
}

connected() { grep -q 'transport status: CONNECTED ' /proc/fs/cifs/DebugData; }

# ---- log -----------------------------------------------------------------------------------

SPLAT='WARNING:|BUG[: ]|Oops|KASAN|KCSAN|UBSAN|lockdep|possible circular|possible recursive|INFO: task .* blocked|refcount_t|Objects remaining|Call Trace|general protection|rcu: INFO|soft lockup|unreferenced object|suspected memory leaks|kernel panic'

log_mark() { MARK="mark $RANDOM$RANDOM $$"; echo "smbd: $MARK" >/dev/kmsg; }

# log_since: what came after the mark, or all there is if the mark has been pushed out.
log_since() {
	dmesg >/tmp/log-since
	if grep -q "smbd: $MARK" /tmp/log-since; then sed "1,/smbd: $MARK/d" /tmp/log-since; else cat /tmp/log-since; fi
}

# A warning in the control's own code: a finding about it, which fails no test of ours.
OF_CONTROL='WARNING: .* at smbdirect_[^ ]* \[smbdirect\]'

# log_clean: no splat since the mark, but for the control's own and for warnings that a test expects of
# others (TOLERATED, a pattern).
log_clean() {
	local line
	line=$(log_since | without_races_of_others | without_known_of_others | without_tolerated | grep -E -m1 "$SPLAT") || return 0
	why "kernel log: $line"
}

# control_warned: it is the control that runs, and it warned; prints of what.
control_warned() { [ "$TRANSPORT" = c ] && log_since | grep -oE -m1 "$OF_CONTROL"; }

# died: after an oops nothing can be relied on any more.
died() { [ $(($(</proc/sys/kernel/tainted) & 128)) -ne 0 ]; }

# peer_crashed: did the kernel crash in code of others, at a place that is known? Prints it.
#	smbd_get_parameters: a mount asks cifs for the sizes of a connection that is just being made again.
peer_crashed() { log_since | grep -oE -m1 'RIP: [^ ]*:smbd_get_parameters\+[^ ]* \[cifs\]'; }

# without_races_of_others: leaves out what KCSAN reports of code in whose stacks neither our module nor its tests stand.
without_races_of_others() {
	awk '/BUG: KCSAN/ { block = ""; inside = 1 }
		inside { block = block $0 "\n"; if (/\[smbdirect/) ours = 1 }
		!inside { print }
		inside && /=====/ { if (ours) printf "%s", block; inside = ours = 0 }
		END { if (inside) printf "%s", block }'
}

# without_known_of_others: leaves out what KASAN and lockdep report of code of others and is known
# (Documentation/faults.rst): rxe's receiver uses a queue pair that went when its packet was queued, and then warns of
# it; siw takes a lock of its socket in a task and in softirq.
without_known_of_others() {
	awk 'function begin(what, end) { inside = what; last = end; block = ""; siw = queued = destroyed = task = 0 }
		!inside && /WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order/ { begin("lock", "</TASK>") }
		!inside && /BUG: KASAN: slab-use-after-free in rxe_sched_task/ { begin("use", "=====") }
		!inside && used && /cut here/ { begin("warning", "end trace") }
		!inside { print; next }
		{ block = block $0 "\n" }
		/ siw_qp_llp_data_ready/ { siw = 1 }
		/ rxe_resp_queue_pkt/ { queued = 1 }
		/ ib_destroy_qp_user/ { destroyed = 1 }
		/WARNING: .* at rxe_sched_task/ { task = 1 }
		$0 ~ last {
			if (inside == "use" && queued && destroyed) used = 1
			else if (!(inside == "lock" && siw || inside == "warning" && task)) printf "%s", block
			inside = ""
		}
		END { if (inside) printf "%s", block }'
}

# without_tolerated: leaves out warnings, from "cut here" to "end trace".
without_tolerated() {
	local tolerated=${TOLERATED:-}
	[ "$TRANSPORT" != c ] || tolerated+="${tolerated:+|}$OF_CONTROL"
	if [ -z "$tolerated" ]; then cat; return; fi
	tolerated=$tolerated awk 'BEGIN { tolerated = ENVIRON["tolerated"] }
		/cut here/ { block = ""; inside = 1 }
		inside { block = block $0 "\n"; if ($0 ~ tolerated) skip = 1 }
		!inside { print }
		/end trace/ { if (!skip) printf "%s", block; inside = skip = 0; block = "" }
		END { printf "%s", block }'
}
