# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest tests: which groups run on which kernel with which module.  Sourced by test.sh.
# An emulated guest keeps about one core busy, so two run at a time where there is memory for it.

# How long one boot may take, in seconds: several times what it needs on an idle machine.
GROUP_BOUND=1500

# parallel: how many guests at once.
parallel() {
	local mem
	mem=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
	if [ "$(nproc)" -ge 2 ] && [ "$mem" -ge 9000 ]; then echo 2; else echo 1; fi
}

# job <function...>: run it beside the other jobs, as soon as there is room.
job() {
	while [ "$(jobs -rp | wc -l)" -ge "$PARALLEL" ]; do wait -n || true; done
	"$@" &
}

# names <prefix> <group>: the wanted tests of a group, by full name.  The cases of the test module
# are known to it alone; the three around them stand for all.
names() {
	local n
	if [ "$2" = exports ]; then
		suite_wanted "$1" || return 0
		# Where a case is named, all before its name must fit.
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $PATTERN != */* || $1/case == ${PATTERN%/*}/* ]] || return 0
		printf '%s\n' "$1"/{load,unload,log}
		return
	fi
	LIST=1 "$TOP/tests/selftests/run.sh" "$2" | while read -r n; do
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $1/$n != $PATTERN ]] || echo "$1/$n"
	done
}

# one_guest <kernel series> <transport> <run> <group> <prefix> [guest.sh options...]: boot, and turn
# what it said into <run>.results.
one_guest() {
	local series=$1 transport=$2 run=$3 group=$4 prefix=$5 rc=0 ko='' job
	shift 5
	[ "$transport" != rust ] || ko=$RUST_KO
	job=("$TOP/tests/selftests/run.sh" "$group" "$prefix" "$PATTERN")
	if [ "$group" = exports ]; then
		job=("$TOP/tests/selftests/exports.sh" "$(rest_of_pattern "$prefix")")
		set -- -v SMBDIRECT_TEST_KO="$TEST_KO" "$@"
	fi
	KVER=$series TRANSPORT=$transport SMBDIRECT_KO=$ko "$TOP/scripts/guest.sh" -t $GROUP_BOUND -d "$run" "$@" -- "${job[@]}" \
		>"$run.err" 2>&1 || rc=$?
	touch "$run/out"
	ktap_results "$prefix" "$run/out" >"$run.results"
	[ "$rc" -le 1 ] || unfinished "$prefix" "$group" "$run" "$rc"
}

# rest_of_pattern <prefix>: what the pattern says of the tests below a prefix.
rest_of_pattern() {
	case $PATTERN in
	"$1"/*) printf '%s\n' "${PATTERN#"$1"/}" ;;
	*) echo '*' ;;
	esac
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

# guest_group <kernel series> <transport> <group>: one boot.
guest_group() {
	local prefix=guest/$1/$2/$3 run=$WORK/$1-$2-$3
	begin "$prefix"
	one_guest "$1" "$2" "$run" "$3" "$prefix"
	[ ! -e "$run/wire.pcapng" ] || judged "$prefix" "$run" "$2" >>"$run.results"
	finish "$prefix" "$run.results"
}

# judged <prefix> <run> <transport>: what others say of the mount that was captured.
judged() {
	local only=()
	[ "$3" = rust ] || only=(tshark)
	if "$TOP/tests/judges/judge.sh" "$2" "${only[@]}" >"$2/judged.log" 2>&1 </dev/null; then
		echo "pass $1/wire/judged"
	else
		echo "fail $1/wire/judged $(grep -m1 -E '^(error|thread|assertion)' "$2/judged.log") ($2/judged.log)"
	fi
}

# pair <kernel series> <client's transport> <server's>: two guests, joined by a cable of two sockets.
pair() {
	local prefix=guest/$1/pair/$2-to-$3 run=$WORK/$1-$2-to-$3 cable server
	local small=(-v GUEST_CPUS=1 -v GUEST_MEM=2048)
	begin "$prefix"
	cable=/tmp/$(mktemp -u smbd-cable.XXXXXX) # a folder of the build root
	# The server serves, whichever of the client's tests are wanted.
	PATTERN='*' one_guest "$1" "$3" "$run-server" server "$prefix/server" "${small[@]}" \
		-q -netdev -q "dgram,id=n0,local.type=unix,local.path=$cable-b,remote.type=unix,remote.path=$cable-a" \
		-q -device -q virtio-net-pci,netdev=n0,mac=52:54:00:00:00:0b &
	server=$!
	one_guest "$1" "$2" "$run-client" client "$prefix/client" "${small[@]}" \
		-q -netdev -q "dgram,id=n0,local.type=unix,local.path=$cable-a,remote.type=unix,remote.path=$cable-b" \
		-q -device -q virtio-net-pci,netdev=n0,mac=52:54:00:00:00:0a
	touch "$run-server/stop"
	wait $server
	$SUDO rm -f "$("$TOP/scripts/root.sh")/fs$cable"-[ab]
	cat "$run-client.results" "$run-server.results" >"$run.results"
	finish "$prefix" "$run.results"
}

# demo <kernel series> <transport>: "make demo" as a user runs it.
demo() {
	local name=demo/$1/$2 log=$WORK/demo-$1-$2 rc=0
	begin "$name"
	KVER=$1 TRANSPORT=$2 timeout -k 10 1500 "$TOP/scripts/demo.sh" >"$log.log" 2>&1 || rc=$?
	if [ "$rc" -eq 0 ] && [ "$(tail -n1 "$log.log")" = "demo: PASS" ]; then
		echo "pass $name" >"$log.results"
	else
		echo "fail $name $(grep -m1 '^demo: FAIL' "$log.log" || echo "exit $rc") ($log.log)" >"$log.results"
	fi
	finish "$name" "$log.results"
}

# ---- what runs -----------------------------------------------------------------------------

demo_job() { ! suite_wanted "demo/$1/$2" || job demo "$@"; }
group_job() { [ -z "$(names "guest/$1/$2/$3" "$3")" ] || job guest_group "$@"; }
pair_job() {
	local p=guest/$1/pair/$2-to-$3
	[ -z "$(names "$p/client" client; names "$p/server" server)" ] || job pair "$@"
}

# series_of <KVER or nothing>: make what the guests of a series need; its name as it stands in tests.
series_of() {
	KVER=$1 "$TOP/scripts/peers.sh" >/dev/null || return
	cut -d' ' -f1 "$SMBD_CACHE/kernel/series-${1:-newest}"
}

# kernel_tests <KVER or nothing> <pairs: yes or no> <groups...>: for the C module, as control, and ours.
kernel_tests() {
	local series g t pairs=$2 transports="c rust"
	series=$(series_of "$1") || {
		broken "guest/${1:-newest}/setup" "the build environment could not be made (see above)"
		return 0
	}
	shift 2
	RUST_KO=$(KVER=$series "$TOP/scripts/modules.sh" build) || {
		broken "guest/$series/rust/build" "smbdirect.ko does not build (see above)"
		transports=c
	}
	TEST_KO=$(KVER=$series "$TOP/tests/kmod/build.sh") ||
		broken "guest/$series/exports/build" "smbdirect_test.ko does not build (see above)"
	for t in $transports; do demo_job "$series" "$t"; done
	for g in "$@"; do
		for t in $transports; do group_job "$series" "$t" "$g"; done
	done
	[ "$pairs" = yes ] || return 0
	pair_job "$series" c c
	[ "$transports" != c ] || return 0
	pair_job "$series" rust c
	pair_job "$series" c rust
	pair_job "$series" rust rust
}

# broken <test> <reason>
broken() { echo "fail $1 $2" >>"$RESULTS"; }

guest_tests() {
	local PARALLEL RUST_KO TEST_KO main groups=(A B C E modules exports)
	PARALLEL=$(parallel)
	suite_wanted guest || suite_wanted demo || return 0
	main=$(cut -d' ' -f1 "$SMBD_CACHE/kernel/series-${KVER:-newest}" 2>/dev/null || true)
	if [ -z "$main" ] || suite_wanted "guest/$main" || suite_wanted "demo/$main"; then
		kernel_tests "$KVER" yes "${groups[@]}"
	fi
	# The first series that has SMB Direct as a module of its own.
	if [ -z "$KVER" ] && { suite_wanted guest/7.2 || suite_wanted demo/7.2; }; then
		kernel_tests 7.2 no smoke
	fi
	wait
}
