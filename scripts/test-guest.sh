# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest tests: which groups run on which kernel with which module.  Sourced by test.sh.

# How long a group may take in the guest, in seconds: about four times what it needs.
GROUP_BOUND=900

# names <prefix> <group>: the wanted tests of a group, by full name.
names() {
	local n
	LIST=1 "$TOP/tests/selftests/run.sh" "$2" | while read -r n; do
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $1/$n != $PATTERN ]] || echo "$1/$n"
	done
}

# guest_group <kernel series> <transport> <group>: one boot.
guest_group() {
	local prefix=guest/$1/$2/$3 run=$WORK/$1-$2-$3 rc=0
	[ -n "$(names "$prefix" "$3")" ] || return 0
	begin "$prefix"
	KVER=$1 TRANSPORT=$2 "$TOP/scripts/guest.sh" -t $GROUP_BOUND -d "$run" -- \
		"$TOP/tests/selftests/run.sh" "$3" "$prefix" "$PATTERN" 2>"$run.err" || rc=$?
	touch "$run/out"
	ktap_results "$prefix" "$run/out" >"$run.results"
	[ "$rc" -le 1 ] || unfinished "$prefix" "$3" "$run" "$rc"
	take "$run.results"
	finish
}

# unfinished <prefix> <group> <run> <rc>: the guest hung or died; the tests that it owes fail by name.
unfinished() {
	local n reason
	case $4 in
	124) reason="the guest did not finish in time" ;;
	125) reason="the guest died" ;;
	*) reason="$(sed -n 's/^error: //p' "$3.err" | head -n1)" ;;
	esac
	names "$1" "$2" | while read -r n; do
		grep -q " $n " "$3.results" || echo "fail $n ${reason:-no result} ($3)"
	done >"$3.missing"
	cat "$3.missing" >>"$3.results"
}

# pair <kernel series> <client's transport> <server's>: two guests, joined by a cable of two sockets.
pair() {
	local prefix=guest/$1/pair/$2-to-$3 run=$WORK/$1-$2-to-$3 ends client server rc=0 src=0
	[ -n "$(names "$prefix/client" client; names "$prefix/server" server)" ] || return 0
	begin "$prefix"
	ends=$(mktemp -u smbd-cable.XXXXXX)
	pair_end "$1" "$3" "$run-server" "$ends" b a -- server "$prefix/server" &
	server=$!
	pair_end "$1" "$2" "$run-client" "$ends" a b -- client "$prefix/client" &
	client=$!
	wait $client || rc=$?
	touch "$run-server/stop"
	wait $server || src=$?
	$SUDO rm -f "$("$TOP/scripts/root.sh")/fs/tmp/$ends"-[ab]
	[ "$rc" -le 1 ] || unfinished "$prefix/client" client "$run-client" "$rc"
	[ "$src" -le 1 ] || unfinished "$prefix/server" server "$run-server" "$src"
	take "$run-client.results"
	take "$run-server.results"
	finish
}

# pair_end <kernel series> <transport> <run> <cable> <my end> <other end> -- <group> <prefix>
pair_end() {
	local series=$1 transport=$2 run=$3 cable=/tmp/$4 rc=0 ko=
	[ "$transport" != rust ] || ko=$RUST_KO
	KVER=$series TRANSPORT=$transport SMBDIRECT_KO=$ko "$TOP/scripts/guest.sh" -t $GROUP_BOUND -d "$run" \
		-v GUEST_CPUS=1 -v GUEST_MEM=2048 -v GUEST_NAME="$8" \
		-q -netdev -q "dgram,id=n0,local.type=unix,local.path=$cable-$5,remote.type=unix,remote.path=$cable-$6" \
		-q -device -q "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:0$5" -- \
		"$TOP/tests/selftests/run.sh" "$8" "$9" "$PATTERN" 2>"$run.err" || rc=$?
	touch "$run/out"
	ktap_results "$9" "$run/out" >"$run.results"
	return $rc
}

# main_series: the series that KVER= or the cache says, as it stands in test names.
main_series() {
	"$TOP/scripts/peers.sh" >/dev/null || return
	cut -d' ' -f1 "$SMBD_CACHE/kernel/series-${KVER:-newest}"
}

# build_ours <series>: our module for that kernel in RUST_KO; one that does not build fails as a test.
build_ours() {
	suite_wanted "guest/$1/rust" || suite_wanted "guest/$1/pair" || return 0
	RUST_KO=$(KVER=$1 "$TOP/scripts/modules.sh" modules) ||
		echo "fail guest/$1/rust/build smbdirect.ko does not build (see above)" >>"$RESULTS"
}

# guest_groups <series> <groups...>: each for the C module, as control, and for ours.
guest_groups() {
	local series=$1 g
	shift
	for g in "$@"; do
		guest_group "$series" c "$g"
		[ -z "$RUST_KO" ] || SMBDIRECT_KO=$RUST_KO guest_group "$series" rust "$g"
	done
}

guest_tests() {
	local series RUST_KO=
	suite_wanted guest || return 0
	series=$(main_series) || {
		echo "fail guest/setup the build environment could not be made (see above)" >>"$RESULTS"
		return 0
	}
	build_ours "$series"
	guest_groups "$series" A B C E modules
	pair "$series" c c
	[ -n "$RUST_KO" ] || return 0
	pair "$series" rust c
	pair "$series" c rust
	pair "$series" rust rust
	[ -n "$KVER" ] || [ "$series" = 7.2 ] || older_kernel
}

# older_kernel: the first series that has SMB Direct as a module of its own.
older_kernel() {
	local KVER=7.2
	suite_wanted guest/7.2 || return 0
	main_series >/dev/null || {
		echo "fail guest/7.2/setup the build environment could not be made (see above)" >>"$RESULTS"
		return 0
	}
	build_ours 7.2
	guest_groups 7.2 smoke
}

# demo_test <kernel series> <transport>: "make demo" as a user runs it.
demo_test() {
	local name=demo/$1/$2 rc=0
	suite_wanted "$name" || return 0
	begin "$name"
	KVER=${1/newest/} TRANSPORT=$2 timeout -k 10 1500 "$TOP/scripts/demo.sh" >"$WORK/${name//\//-}.log" 2>&1 || rc=$?
	if [ "$rc" -eq 0 ] && [ "$(tail -n1 "$WORK/${name//\//-}.log")" = "demo: PASS" ]; then
		echo "pass $name"
	else
		echo "fail $name $(grep -m1 '^demo: FAIL' "$WORK/${name//\//-}.log" || echo "exit $rc") ($WORK/${name//\//-}.log)"
	fi >"$WORK/demo.results"
	take "$WORK/demo.results"
	finish
}

demo_tests() {
	demo_test newest c
	demo_test newest rust
	[ -n "$KVER" ] || demo_test 7.2 rust
}
