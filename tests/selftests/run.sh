#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run one group of guest tests:	run.sh <group> [prefix pattern]	(in the guest, as root)
# or name its tests:		LIST=1 run.sh <group>		(anywhere)
# The output is KTAP.  A reason follows a failed test's name after " # ".

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/selftests/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/selftests/checks.sh
. "$here/checks.sh"
# shellcheck source=tests/selftests/errors.sh
. "$here/errors.sh"
# shellcheck source=tests/selftests/faults.sh
. "$here/faults.sh"
# shellcheck source=tests/selftests/crowd.sh
. "$here/crowd.sh"
# shellcheck source=tests/selftests/pressure.sh
. "$here/pressure.sh"
# shellcheck source=tests/selftests/suites.sh
. "$here/suites.sh"
# shellcheck source=tests/selftests/groups.sh
. "$here/groups.sh"
group=$1 prefix=${2:-} pattern=${3:-*}

# wanted <name>: the pattern is about whole names, with what the host puts in front.
# shellcheck disable=SC2053 # the right side is a pattern
wanted() { [[ $prefix/$1 == $pattern ]]; }

# report <name> <status>: one KTAP line; 4 is for what is not for this module.
report() {
	if [ "$2" -eq 0 ]; then
		ktap_test_pass "$1"
	elif [ "$2" -eq 4 ]; then
		ktap_test_skip "$1 # SKIP $WHY"
	else
		ktap_test_fail "$1 # ${WHY:-no reason known}"
	fi
}

# names <cell> <checks...>: every cell also mounts, unmounts, unloads and keeps the log clean.
names() {
	local c=$1 k
	shift
	for k in mount "$@" unmount unload log; do echo "$c/$k"; done
}

cell() {
	local name=$1 topology=$2 dialect=$3 options=$4 n
	shift 4
	for n in $(names "$name" "$@"); do
		# A cell is run whole as soon as one of its tests is wanted.
		! wanted "$n" || { CELLS+=("run_cell $name $topology $dialect '$options' $*"); return; }
	done
}

other() { ! wanted "$1" || CELLS+=("run_other $1"); }

rounds() { ! wanted "rounds/$1" || CELLS+=("run_rounds $1"); }

list() {
	cell() { local n=$1; shift 4; names "$n" "$@"; }
	rounds() { echo "rounds/$1"; }
	other() { echo "$1"; }
	whole_group
}

# whole_group: where the kernel can tell, nothing may be left at the end.
whole_group() {
	"group_${group//-/_}"
	[ "$SANITIZER" != kasan ] || other leaks
}

# watch <seconds> <pid> <file>: after that time, or when the kernel has crashed, say so and end the process.
watch() {
	local end=$((SECONDS + $1))
	until died || [ $SECONDS -ge $end ]; do sleep 5; done
	echo w >/proc/sysrq-trigger
	if died; then echo "the kernel crashed: $(log_since | grep -m1 RIP:)"; else echo "no end within $1 s"; fi >"$3"
	kill -9 "$2"
}

# bounded <seconds> <function...>: run in this shell's place but not for ever.  A check that does
# not come back is reported with what the kernel's tasks are waiting for, and ends the group.
bounded() {
	local t=$(($1 * SLOW)) rc=0 pid f
	shift
	f=$(mktemp)
	("$@" >&2 || { rc=$?; echo "$WHY" >"$f"; exit "$rc"; }) &
	pid=$!
	watch "$t" $pid "$f" &
	local dog=$!
	wait $pid 2>/dev/null || rc=$?
	kill $dog 2>/dev/null
	wait $dog 2>/dev/null
	WHY=$(tail -n1 "$f")
	rm -f "$f"
	return "$rc"
}

set_up() {
	topology_up "$TOPOLOGY" && load_modules && serve && smb_mount "$OPTIONS"
}

# serve: with two guests the server is the other one.
serve() {
	if local_share; then server_start; else wait_for 90 bash -c "</dev/tcp/$SERVER/445"; fi
}

# clean_up_after <what>: get everything out of the way so that the next cell has a chance.  When
# that fails nothing more is run in this guest.
clean_up_after() {
	local why=$WHY
	! died || HOPELESS="the kernel, in $1,"
	[ -n "$HOPELESS" ] || out_of_the_way >/dev/null 2>&1 || HOPELESS="clean-up after $1"
	WHY=$why
}

# hopeless <test>: nothing can be run in this guest any more, and the test says so.
hopeless() {
	[ -n "$HOPELESS" ] || return
	WHY="not run: $HOPELESS failed"
	if peer_crashed >/dev/null; then ktap_test_skip "$1 # SKIP $WHY"; else report "$1" 1; fi
	return 0
}

out_of_the_way() {
	# Programs that a failed test has left running hold the mount, and what waits for its server holds them.
	pkill -9 -x 'fio|dd|cp|tar|dumpcap|stress-ng'
	timeout -k 5 20 umount -f $MNT
	umount -l /mnt/hog
	timeout -k 5 20 umount -l $MNT
	timeout -k 5 20 ksmbd.control --shutdown
	pkill ksmbd.mountd
	sleep 1
	umount $SHARE
	bounded 90 unload_modules && bounded 60 topology_down
}

# one <test> <command...>: run and report; after a failed one the rest of the cell is not run.
one() {
	local name=$1 start rc=0
	shift
	if [ -n "$BROKEN" ]; then
		WHY="not run: $BROKEN failed"
		report "$name" 1
		return
	fi
	WHY=
	start=$SECONDS
	"$@" || rc=$?
	report "$name" "$rc"
	[ "$rc" -eq 0 ] || [ "$rc" -eq 4 ] || BROKEN=${name#*/}
	echo "# $((SECONDS - start)) s"
}

run_cell() {
	local name=$1 k
	TOPOLOGY=$2 DIALECT=$3 OPTIONS=$4 PARAMETERS=
	# shellcheck disable=SC2034 # read by lib.sh
	[[ $name != *-larger ]] || PARAMETERS=max_message_size=8136
	shift 4
	echo "# cell $name: topology $TOPOLOGY, vers=$DIALECT${OPTIONS:+,$OPTIONS}"
	log_mark
	one "$name/mount" set_up
	for k in "$@"; do
		one "$name/$k" bounded 400 "check_$k"
	done
	one "$name/unmount" bounded 120 smb_umount
	one "$name/unload" bounded 180 take_down
	[ -z "$BROKEN" ] || clean_up_after "$name"
	BROKEN=$HOPELESS
	if ! log_clean; then
		report "$name/log" 1
	elif k=$(control_warned); then
		ktap_test_skip "$name/log # SKIP the C module warns: $k"
	else
		report "$name/log" 0
	fi
}

# run_rounds <n>: load, mount, I/O, unmount, unload, again and again.
run_rounds() {
	local i
	TOPOLOGY=A DIALECT=3.1.1 OPTIONS=
	! hopeless "rounds/$1" || return
	log_mark
	random_pool
	for ((i = 1; i <= $1; i++)); do
		echo "# round $i"
		set_up && one_size 1048577 && one_size 65536 && smb_umount && take_down || break
	done
	[ "$i" -gt "$1" ] && log_clean || { WHY="round $i: $WHY"; clean_up_after "round $i"; false; }
	report "rounds/$1" $?
}

run_other() {
	local tolerated=tolerated_${1//-/_}
	local TOLERATED=${!tolerated:-} bound=bound_${1//-/_} where rc=0
	! hopeless "$1" || return
	log_mark
	WHY=
	bounded "${!bound:-900}" "test_${1//-/_}" || rc=$?
	if [ "$rc" -eq 4 ] || { [ "$rc" -eq 0 ] && log_clean; }; then
		report "$1" "$rc"
		return
	fi
	clean_up_after "$1"
	if where=$(peer_crashed); then
		ktap_test_skip "$1 # SKIP a crash of cifs: $where"
	else
		report "$1" 1
	fi
}

CELLS=() BROKEN='' HOPELESS=''
if [ -n "${LIST:-}" ]; then
	list
	exit
fi
whole_group
# shellcheck source=/dev/null
. "$KERNEL/build/tools/testing/selftests/kselftest/ktap_helpers.sh"
ktap_print_header
for c in "${CELLS[@]}"; do eval "$c"; done
[ -z "$HOPELESS" ] || echo "Bail out! $HOPELESS failed $(dmesg | grep -m1 RIP:)"
KSFT_NUM_TESTS=$((KTAP_CNT_PASS + KTAP_CNT_FAIL + KTAP_CNT_SKIP))
echo "1..$KSFT_NUM_TESTS"
ktap_finished
