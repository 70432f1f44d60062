#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The exports without cifs and ksmbd: load smbdirect_test.ko ($SMBDIRECT_TEST_KO, made by
# tests/kmod/build.sh), which calls them and reports in KTAP in the kernel log.	exports.sh [pattern]
# The output is KTAP, after a case's name " # " and what is wrong.  TOPOLOGY is A, C (siw) or E.

# shellcheck source=tests/selftests/lib.sh
. "$TOP/tests/selftests/lib.sh"
# shellcheck source=tests/selftests/checks.sh
. "$TOP/tests/selftests/checks.sh"
LOG="$RUN/exports.log"
KIND=rxe IWARP=0
[ "${TOPOLOGY:=A}" != C ] || KIND=siw IWARP=1

# netdevs: beside the RDMA interface a VLAN above it, and a bridge above a second one.
netdevs() {
	try 60 modprobe 8021q && try 60 modprobe bridge &&
		try 10 ip link add link dummy0 name vlan7 type vlan id 7 &&
		try 10 ip link add dummy1 type dummy &&
		try 10 ip link set dummy1 mtu 9000 up &&
		try 10 rdma link add ${KIND}1 type $KIND netdev dummy1 &&
		try 10 ip link add br0 type bridge &&
		try 10 ip link set dummy1 master br0
}

netdevs_gone() {
	try 10 ip link delete br0 && try 30 rdma link delete ${KIND}1 &&
		try 10 ip link delete dummy1 && try 10 ip link delete vlan7
}

# run_cases <pattern>: the module runs them while it is loaded.
run_cases() {
	local ours=1 rc=0 bound=600 stress=3000 rounds=20
	[ -z "$LONG" ] || bound=3600 stress=30000 rounds=1000
	[ "$TRANSPORT" = rust ] || ours=0
	: >"$LOG"
	dmesg --follow >"$RUN/exports.dmesg" 2>/dev/null &
	local follower=$!
	try $bound insmod "$SMBDIRECT_TEST_KO" rust=$ours iwarp=$IWARP addr=$SERVER only="$1" \
		slow="$SLOW" fault_rounds=$rounds stress_ms=$stress \
		netdevs=dummy0,lo,vlan7,br0 || rc=1
	sleep 1
	kill $follower
	wait $follower 2>/dev/null
	sed -n 's/^\[[^]]*\] smbdirect_test: //p' "$RUN/exports.dmesg" >"$LOG"
	return $rc
}

# complete: the last case was reached, and nobody needs the modules any more.
complete() {
	grep -q '^# done' "$LOG" || why "$(grep -m1 '^Bail out' "$LOG" || echo "the cases did not end")" || return
	try 60 rmmod smbdirect_test && unload_modules
}

# leftovers: a consumer that forgets its sockets; our module tears them down when it goes (R20).
# rules: R20
leftovers() {
	insert "$SMBDIRECT_KO" && try 60 insmod "$SMBDIRECT_TEST_KO" iwarp=$IWARP addr=$SERVER leave=1 &&
		try 60 rmmod smbdirect_test && try 60 rmmod smbdirect &&
		{ log_since | grep -q 'sockets left behind' || why "the sockets were not made"; }
}

# log: the control warns of some cases and is known to.
log_ok() { [ "$TRANSPORT" != rust ] || log_clean; }

# result <name> <status>: one more line, its number is the next; 4 is for what is left out.
result() {
	N=$((N + 1))
	case $2 in
	0) echo "ok $N $1" ;;
	4) echo "ok $N $1 # SKIP $WHY" ;;
	*) echo "not ok $N $1 # ${WHY:-no reason known}" ;;
	esac
}

# no_leaks: what iw_cm leaks with siw is named and left out; with rxe nothing is.
no_leaks() {
	test_leaks && return
	[ "$TOPOLOGY" = C ] || return
	WHY="iw_cm forgets requests of a listener that goes: $WHY"
	return 4
}

log_mark
if topology_up "$TOPOLOGY" && netdevs && insert "$SMBDIRECT_KO"; then
	run_cases "${1:-*}"
	rc=$?
else
	rc=1
fi
N=$(grep -cE '^(not )?ok ' "$LOG" 2>/dev/null) || N=0
echo "KTAP version 1"
grep -vE "^(KTAP|[0-9]+\.\.)" "$LOG" 2>/dev/null
result load $rc
complete
result unload $?
if [ "$TRANSPORT" = rust ]; then
	leftovers
	result leftovers $?
fi
netdevs_gone && topology_down
result devices $?
if [ "$SANITIZER" = kasan ]; then
	no_leaks
	result leaks $?
fi
log_ok
result log $?
echo "1..$N"
