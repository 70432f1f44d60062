# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2086
#
# Curves of "make bench CASE=scale": what an operation costs against size and number, for C and for ours. Sourced by
# guest.sh. A point leaves $OUT/<curve>.<x>.<arm>.json, by fio or, of idle connections, by our own hand.

CURVES="idle size readers connections credits"

points_of() {
	case $1 in
	size) echo 512 4096 16384 65536 262144 1048576 4194304 8388608 ;;
	readers | connections) echo 1 2 4 8 16 32 64 ;;
	credits) echo 255 128 64 32 16 ;;
	idle) echo 32 256 ;;
	esac
}

# curve <curve> <arm>
curve() {
	local x
	for x in $(points_of "$1"); do
		"curve_$1" "$x" && cp /tmp/result.json "$OUT/$1.$x.$2.json" || why "$1 $x of $2: $WHY" || return
	done
}

# clients <n> [options]: as many mounts, each with a connection of its own. After 256 connections have gone, a connection of
# the C module times out; so each is tried for a minute.
clients() {
	local i
	for ((i = 1; i <= $1; i++)); do wait_for 60 smb_mount "nosharesock${2:+,$2}" /mnt/c$i || return; done
}

# no_clients: over when both ends are gone.
no_clients() { unmount_all && wait_for 60 eval '! rdma resource show qp | grep -q "type RC"'; }

# One program unmounts them all, with the call umount2, and asks the host for no file meanwhile: the guest's clock would
# jump. Its milliseconds are left in a file.
unmount_all() {
	# shellcheck disable=SC2016 # perl's
	try 3000 perl -MTime::HiRes=time -e '
		my $start = time;
		for (@ARGV) { syscall(166, $_, 0) == 0 && rmdir $_ or die "$_: $!" }
		open(my $file, ">", "/tmp/unmount-ms") or die;
		printf $file "%d", (time - $start) * 1000' /mnt/c*
}

# A size: requests one after the other, 16 MiB of them if that is not too many or too few.
curve_size() {
	local n=$((16777216 / $1))
	clients 1 rsize=8388608 && MNT=/mnt/c1 job read $1 1 $((n > 200 ? 200 : n < 4 ? 4 : n)) && no_clients
}

# twice <command...>: the first time the kernel makes workers for so many requests at a time.
twice() { "$@" && "$@"; }

# So many readers of one mount.
curve_readers() { clients 1 && MNT=/mnt/c1 twice job randread 4k $1 $((512 / $1)) && no_clients; }

# So many connections with a reader each.
curve_connections() {
	local i jobs=()
	clients $1 || return
	for ((i = 1; i <= $1; i++)); do jobs+=("--name=c$i" "--filename=/mnt/c$i/data"); done
	twice try 3000 fio --size=64m --direct=1 --ioengine=psync --thread --rw=randread --bs=4k --number_ios=$((512 / $1)) --norandommap \
		--randseed=7 --group_reporting --output-format=json --output=/tmp/result.json "${jobs[@]}" && no_clients
}

# A window of so many credits, where data travels in messages. With a small one the C module never ends; there its curve does.
curve_credits() {
	echo $1 >/proc/fs/cifs/smbd_receive_credit_max && echo $1 >/proc/fs/cifs/smbd_send_credit_target || return
	clients 1 sign && SLOW=1 try 300 dd if=/mnt/c1/data of=/dev/null bs=128k count=4 iflag=direct status=none &&
		MNT=/mnt/c1 job read 128k 1 24 && no_clients
}

# So many connections that do nothing: the memory of both ends, KiB each, and the time of their unmounts, ms each.
curve_idle() {
	local before after
	# What caches take the first time is not the connections'.
	clients 8 && no_clients || return
	settle && before=$(free_memory) && clients $1 && settle && after=$(free_memory) && no_clients || return
	echo "{\"connections\": $1, \"kib\": $((before - after)), \"ms\": $(</tmp/unmount-ms)}" >/tmp/result.json
}
settle() { sync && echo 3 >/proc/sys/vm/drop_caches && sleep 2; }
free_memory() { awk '/^MemFree/ { print $2 }' /proc/meminfo; }

# scale: every curve, in one boot.
scale() {
	local a c
	topology_up A || return
	for a in rust c; do
		start $a && try 60 dd if=/dev/zero of=$SHARE/data bs=1M count=64 status=none || return
		for c in $CURVES; do
			# Nothing can be unloaded after a mount that hangs; credits of the C module come last of all.
			curve $c $a || { [ "$c $a" = "credits c" ] && echo "# $WHY"; return; }
		done
		rm $SHARE/data && stop $a || return
	done
	topology_down
}
