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
: "${DIALECT:=3.1.1}"

# why <text>: remember the reason of a failure.
# shellcheck disable=SC2034 # read by the tests
why() {
	WHY=$*
	return 1
}

# try <seconds> <command...>: bounded; what it prints becomes the reason of its failure.
try() {
	local t=$1 out rc=0
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
	local end=$((SECONDS + $1))
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
	insert "$SMBDIRECT_KO" && insert "$PEERS/ksmbd.ko" && insert "$PEERS/cifs.ko"
}

# unload_modules: must succeed: a module that stays in use has leaked something.  cifs lets go of
# itself a moment after the unmount, when its thread has ended.
unload_modules() {
	local m
	for m in cifs ksmbd smbdirect; do
		[ ! -e "/sys/module/$m" ] || wait_for 20 timeout -k 5 15 rmmod "$m" || return
	done
}

# ---- topologies ----------------------------------------------------------------------------

# rdma_name: the device the server listens on.
rdma_name() { [ "$TOPOLOGY" = C ] && echo siw0 || echo rxe0; }

# topology_up <A|B|C|E>: see Documentation/testing.  The MTU must be raised before the RDMA link.
topology_up() {
	TOPOLOGY=$1
	NETNS=()
	case $1 in
	A) one_device rxe ;;
	B) two_ends ;;
	C) insert "$PEERS/siw.ko" && one_device siw ;;
	D) network_card 10.0.0.2 ;;
	S) network_card $SERVER ;;
	E) try 30 modprobe ib_core force_mr=1 && one_device rxe ;;
	*) why "no topology $1" ;;
	esac
}

# one_device <rxe|siw>: client and server on one dummy interface.  It has several queues, because
# cifs opens a second channel on an interface only if ksmbd calls it capable of RSS.
one_device() {
	[ "$1" != rxe ] || try 60 modprobe rdma_rxe || return
	try 10 modprobe dummy numdummies=0 &&
		try 10 ip link add dummy0 numtxqueues 4 numrxqueues 4 type dummy &&
		try 10 ip link set dummy0 mtu 9000 up &&
		try 10 ip addr add $SERVER/24 dev dummy0 &&
		try 10 rdma link add "${1}0" type "$1" netdev dummy0
}

# two_ends: a veth pair, the far end in the network namespace "cl" where the mount is made.
two_ends() {
	try 60 modprobe rdma_rxe && try 10 modprobe veth &&
		try 10 ip netns add cl &&
		try 10 ip link add veth0 mtu 9000 type veth peer name veth1 mtu 9000 netns cl &&
		try 10 ip addr add $SERVER/24 dev veth0 && try 10 ip link set veth0 up &&
		try 10 ip -n cl addr add 10.0.0.2/24 dev veth1 && try 10 ip -n cl link set veth1 up &&
		try 10 ip -n cl link set lo up &&
		try 10 rdma link add rxe0 type rxe netdev veth0 &&
		try 10 nsenter --net=/run/netns/cl rdma link add rxe1 type rxe netdev veth1
	NETNS=(nsenter --net=/run/netns/cl)
}

# network_card <address>: one end of a cable between two guests; D is the client's, S the server's.
network_card() {
	try 60 modprobe rdma_rxe && try 60 modprobe virtio_net &&
		wait_for 20 test -e /sys/class/net/eth0 &&
		try 10 ip addr add "$1/24" dev eth0 && try 10 ip link set eth0 up &&
		try 10 rdma link add rxe0 type rxe netdev eth0
}

# topology_down: links, namespaces and the whole RDMA stack, so that the next one starts fresh.
topology_down() {
	local d
	for d in /sys/class/infiniband/*; do
		[ ! -e "$d" ] || try 30 rdma link delete "${d##*/}" || return
	done
	[ ! -e /sys/class/net/dummy0 ] || try 10 ip link delete dummy0 || return
	[ ! -e /sys/class/net/veth0 ] || try 10 ip link delete veth0 || return
	[ ! -e /sys/class/net/eth0 ] || try 10 ip addr flush dev eth0 || return
	[ ! -e /run/netns/cl ] || try 10 ip netns delete cl || return
	NETNS=()
	for d in siw rdma_rxe rdma_ucm rdma_cm iw_cm ib_cm ib_uverbs ib_core; do
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
		${1:-}
		[share]
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
	wait_for 20 server_gone "$MOUNTD"
	[ ! -e "$SHARE" ] || umount $SHARE 2>/dev/null || true
}

server_gone() { ! kill -0 "$1" && ! server_listens; }

# ---- client --------------------------------------------------------------------------------

# smb_mount [options] [mount point]: -o rdma from wherever the topology puts the client.
smb_mount() {
	mkdir -p "${2:-$MNT}"
	try 90 "${NETNS[@]}" mount -t cifs "//$SERVER/share" "${2:-$MNT}" \
		-o "rdma,vers=$DIALECT,username=root,password=pw,cache=none${1:+,$1}"
}

smb_umount() { try 60 umount "${1:-$MNT}"; }

# debug_block: the SMB Direct block of DebugData.
debug_block() { sed -n '/^SMBDirect protocol/,/^MR mr_ready/p' /proc/fs/cifs/DebugData; }

# over_rdma: is the mount really on RDMA?  Both the mount table and the transport must say so.
over_rdma() {
	grep -q "cifs .*[, ]rdma" /proc/mounts || why "the mount table does not say rdma" || return
	grep -qi "CONNECTED" /proc/fs/cifs/DebugData || why "DebugData shows no connected SMB Direct transport"
}

# ---- log -----------------------------------------------------------------------------------

SPLAT='WARNING:|BUG[: ]|Oops|KASAN|KCSAN|UBSAN|lockdep|possible circular|possible recursive|INFO: task .* blocked|refcount_t|Objects remaining|Call Trace|general protection|rcu: INFO|soft lockup|unreferenced object|kernel panic'

log_mark() { MARK="mark $RANDOM$RANDOM $$"; echo "smbd: $MARK" >/dev/kmsg; }

# log_since: what came after the mark, or all there is if the mark has been pushed out.
log_since() {
	dmesg >/tmp/log-since
	if grep -q "smbd: $MARK" /tmp/log-since; then sed "1,/smbd: $MARK/d" /tmp/log-since; else cat /tmp/log-since; fi
}

# log_clean: no splat since the mark.
log_clean() {
	local line
	line=$(log_since | grep -E -m1 "$SPLAT") || return 0
	why "kernel log: $line"
}
