# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# A server with many clients, which connect, work and vanish at random while it is restarted under them.
# Sourced by run.sh.

# Machines, each a network namespace with a cable to the switch, and mounts of each, each with a connection
# of its own.
MACHINES=4 CLIENTS=4 CROWD_SECONDS=60
[ -z "$LONG" ] || CLIENTS=16 CROWD_SECONDS=600
# shellcheck disable=SC2034 # by run.sh
bound_crowd=$((CROWD_SECONDS + 500))

# machines_up: one more end of the switch for each.
machines_up() {
	local m
	topology_up F || return
	for ((m = 1; m <= MACHINES; m++)); do
		try 10 ip netns add cl$m && switched_end vm$m m$m 9000 10.0.0.$((10 + m)) -n cl$m &&
			try 10 nsenter --net=/run/netns/cl$m rdma link add "rxe$((1 + m))" type rxe netdev vm$m || return
	done
}

# client <machine> <number> <until>: mounts, writes, reads back, goes; any error may come, but no wrong byte.
client() {
	# shellcheck disable=SC2034 # read by smb_mount
	local NETNS=(nsenter --net=/run/netns/cl"$1") where=/mnt/c$1-$2 file
	file=$where/f$1-$2
	head -c $((100000 + RANDOM)) /tmp/pool >/tmp/want$1-$2
	while [ $SECONDS -lt "$3" ]; do
		smb_mount soft,nosharesock,echo_interval=5 "$where" || { sleep 1; continue; }
		echo >>/tmp/mounted
		while [ $((RANDOM % 4)) -gt 0 ]; do
			timeout 60 cp /tmp/want$1-$2 "$file" 2>/dev/null && timeout 60 cat "$file" >/tmp/got$1-$2 2>/dev/null || break
			cmp -s /tmp/want$1-$2 /tmp/got$1-$2 || echo "machine $1, mount $2: wrong bytes" >>/tmp/wrong
			echo >>/tmp/worked
		done
		timeout -k 5 120 umount "$where" 2>/dev/null || umount -l "$where"
	done
}

# vanish <until>: now and then one machine is gone without a word for a while.
vanish() {
	local m
	while [ $SECONDS -lt "$1" ]; do
		sleep $((5 + RANDOM % 10))
		m=$((1 + RANDOM % MACHINES))
		on_switch ip link set m$m nomaster
		sleep $((5 + RANDOM % 15))
		on_switch ip link set m$m master br0
	done
}

# restarts <until>: the server is stopped and started.
restarts() {
	while [ $((SECONDS + 30)) -lt "$1" ]; do
		sleep 25
		server_stop_strikes && sleep 2 && server_start || { echo "restart: $WHY" >>/tmp/wrong; return; }
	done
}

# used_memory: what the kernel itself has, in KiB.
used_memory() { awk '/^(SUnreclaim|KernelStack|PageTables|Percpu|VmallocUsed):/ { n += $2 } END { print n }' /proc/meminfo; }

# crowd <seconds>: all of it at once.
crowd() {
	local m c until=$((SECONDS + $1)) jobs=()
	: >/tmp/mounted
	: >/tmp/worked
	for ((m = 1; m <= MACHINES; m++)); do
		for ((c = 1; c <= CLIENTS; c++)); do
			client $m $c $until &
			jobs+=($!)
		done
	done
	vanish $until &
	jobs+=($!)
	restarts $until
	wait "${jobs[@]}"
	echo "# $(wc -l </tmp/mounted) mounts, $(wc -l </tmp/worked) rounds of work"
	[ ! -s /tmp/wrong ] || why "$(head -n1 /tmp/wrong)"
}

# The short crowd first shows what memory so many take; the long one must not take more for good.
test_crowd() {
	local before after
	rm -f /tmp/wrong
	random_pool && machines_up && load_modules && server_start && crowd 40 || return
	before=$(used_memory)
	crowd "$CROWD_SECONDS" || return
	sleep 5
	after=$(used_memory)
	echo "# memory before $before KiB, after $after KiB"
	[ $((after - before)) -lt 16384 ] || why "the kernel has $((after - before)) KiB more than before" || return
	[ -s /tmp/worked ] || why "nobody did any work" || return
	smb_mount && one_size 1048577 && smb_umount && take_down
}
