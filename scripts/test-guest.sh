# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest tests: which groups run on which kernel with which module.  Sourced by test.sh.
# An emulated guest keeps about one core busy, so two run at a time where there is memory for it.

# How long one boot may take, in seconds: several times what it needs on an idle machine.  A kernel with
# sanitizers is slower; SLOW stretches the guest's own bounds, and its tests move less data.
GROUP_BOUND=1500
[ "${T:-*}" = '*' ] || GROUP_BOUND=3600
[ -z "$SANITIZER" ] || GROUP_BOUND=7200
[ -z "${SMBD_LONG:-}" ] || GROUP_BOUND=21600

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
	if [[ $2 == exports* ]]; then
		suite_wanted "$1" || return 0
		# Where a case is named, all before its name must fit.
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $PATTERN != */* || $1/case == ${PATTERN%/*}/* ]] || return 0
		printf '%s\n' "$1"/{load,unload,log}
		return
	fi
	LIST=1 LONG=${SMBD_LONG:-} "$TOP/tests/selftests/run.sh" "$2" | while read -r n; do
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
	[ "$group" != suites ] || set -- -v FSX="$("$TOP/scripts/cargo-tool.sh" fsx 0.3.2)" "$@"
	[ -z "${SMBD_LONG:-}" ] || set -- -v LONG=1 "$@"
	if [[ $group == exports* ]]; then
		job=("$TOP/tests/selftests/exports.sh" "$(rest_of_pattern "$prefix")")
		set -- -v TOPOLOGY="$(cut -s -d- -f2 <<<"$group")" "$@"
	fi
	set -- -v SMBDIRECT_TEST_KO="${TEST_KO:-}" "$@"
	KVER=${series%%-*} TRANSPORT=$transport SMBDIRECT_KO=$ko "$TOP/scripts/guest.sh" -t $GROUP_BOUND -d "$run" \
		"$@" -- "${job[@]}" \
		>"$run.err" 2>&1 || rc=$?
	mkdir -p "$run"
	touch "$run/out"
	ktap_results "$prefix" "$run/out" >"$run.results"
	# The plan comes last: without it the guest, or the script that was to start it, has not come to its end.
	[ "$rc" -le 1 ] && grep -q '^1\.\.[0-9]' "$run/out" || unfinished "$prefix" "$group" "$run" "$rc"
	[ "$transport" != c ] || crash_of_control "$run"
}

# crash_of_control <run>: a crash in the control's own code is a finding about the control; what the guest
# owes after it is named and left out.
crash_of_control() {
	local where
	where=$(grep -oE -m1 'RIP: [^ ]*:smbdirect_[^ ]* \[smbdirect\]' "$1/console") || return 0
	sed -i "s|^fail \([^ ]*\).*|skip \1 the C module crashed: $where|" "$1.results"
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

# few <transport> <group>: the tests of a group for the control, and on a slow kernel, unless tests are asked
# for by name or at length: one cell of each topology, no rounds, and of the control no errors and faults.
few() {
	[ "$PATTERN" = '*' ] && [ -z "${SMBD_LONG:-}" ] || { printf '%s\n' "$PATTERN"; return; }
	case $1/$2 in
	*/[ABCE]) printf '%s\n' '@(*/3.1.1/*|*/leaks)' ;;
	*/modules) printf '%s\n' '@(*/[adi]*|*/leaks)' ;;
	c/errors | c/short | c/exports-*) printf '%s\n' 'none' ;;
	*) printf '%s\n' '*' ;;
	esac
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

# joined_guest <cable> <end: a or b> <series> <transport> <run> <group> <prefix> [guest.sh options...]: a guest
# with one end of a cable of two sockets.
joined_guest() {
	local cable=$1 end=$2 other=b
	[ "$end" = a ] || other=a
	shift 2
	one_guest "${@:1:5}" -v GUEST_CPUS=1 -v GUEST_MEM=2048 \
		-q -netdev -q "dgram,id=n0,local.type=unix,local.path=$cable-$end,remote.type=unix,remote.path=$cable-$other" \
		-q -device -q "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:0$end" "${@:6}"
}

# A folder of the build root.
new_cable() { printf '/tmp/%s\n' "$(mktemp -u smbd-cable.XXXXXX)"; }
remove_cable() { $SUDO rm -f "$("$TOP/scripts/root.sh")/fs$1"-[ab]; }

# pair <kernel series> <client's transport> <server's> <test prefix> <client's group> <server's>: two guests.
pair() {
	local prefix=$4 run=$WORK/${4//\//-} cable server
	begin "$prefix"
	cable=$(new_cable)
	# The server serves, whichever of the client's tests are wanted.
	PATTERN='*' joined_guest "$cable" b "$1" "$3" "$run-server" "$6" "$prefix/server" &
	server=$!
	joined_guest "$cable" a "$1" "$2" "$run-client" "$5" "$prefix/client"
	touch "$run-server/stop"
	wait $server
	remove_cable "$cable"
	cat "$run-client.results" "$run-server.results" >"$run.results"
	finish "$prefix" "$run.results"
}

# power <kernel series> <transport>: two guests; the server's loses its power under load and boots again, with
# its disk.
power() {
	local prefix=guest/$1/power/$2 run=$WORK/$1-$2-power cable client disk
	begin "$prefix"
	cable=$(new_cable)
	disk=(-q -drive -q "file=$run.disk,if=virtio,format=raw")
	truncate -s 512M "$run.disk"
	joined_guest "$cable" a "$1" "$2" "$run-client" power-client "$prefix/client" &
	client=$!
	PATTERN='*' joined_guest "$cable" b "$1" "$2" "$run-before" power-server "$prefix/server" "${disk[@]}"
	PATTERN='*' joined_guest "$cable" b "$1" "$2" "$run-server" power-server "$prefix/server" -v AGAIN=1 "${disk[@]}" &
	wait $client
	touch "$run-server/stop"
	wait
	remove_cable "$cable"
	rm -f "$run.disk"
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
group_job() {
	local PATTERN=$PATTERN
	[ "$2" != c ] && [ -z "$SANITIZER" ] || PATTERN=$(few "$2" "$3")
	[ -z "$(names "guest/$1/$2/$3" "$3")" ] || job guest_group "$@"
}
pair_job() {
	local p=guest/$1/pair/$2-to-$3
	[ -z "$(names "$p/client" client; names "$p/server" server)" ] || job pair "$@" "$p" client server
}

far_job() {
	local p=guest/$1/far/$2
	[ -z "$(names "$p/client" far-client; names "$p/server" far-server)" ] ||
		job pair "$1" "$2" "$2" "$p" far-client far-server
}

power_job() {
	local p=guest/$1/power/$2
	[ -z "$(names "$p/client" power-client; names "$p/server" power-server)" ] || job power "$@"
}

# series_of <KVER or nothing>: make what the guests of a series need; its name as it stands in tests,
# "7.3", or "7.3-kasan" for a kernel with that sanitizer.
series_of() {
	local series
	KVER=$1 "$TOP/scripts/peers.sh" >/dev/null || return
	series=$(cut -d' ' -f1 "$SMBD_CACHE/kernel/series-${1:-newest}")
	printf '%s\n' "$series${SANITIZER:+-$SANITIZER}"
}

# kernel_tests <KVER or nothing> <pairs: yes or no> <groups...>: for the C module, as control, and ours.
kernel_tests() {
	local series g t pairs=$2 transports="c rust"
	series=$(series_of "$1") || {
		broken "guest/${1:-newest}/setup" "the build environment could not be made (see above)"
		return 0
	}
	shift 2
	RUST_KO=$(KVER=${series%%-*} "$TOP/scripts/modules.sh" build) || {
		broken "guest/$series/rust/build" "smbdirect.ko does not build (see above)"
		transports=c
	}
	TEST_KO=$(KVER=${series%%-*} "$TOP/tests/kmod/build.sh") ||
		broken "guest/$series/exports/build" "smbdirect_test.ko does not build (see above)"
	[ -n "$SANITIZER" ] || for t in $transports; do demo_job "$series" "$t"; done
	for g in "$@"; do
		for t in $transports; do group_job "$series" "$t" "$g"; done
	done
	[ "$pairs" = yes ] || return 0
	for t in $transports; do
		[ -z "${SMBD_LONG:-}" ] && [[ $PATTERN != *power* ]] || power_job "$series" "$t"
		[ -z "${SMBD_LONG:-}" ] && [[ $PATTERN != *far/* ]] || far_job "$series" "$t"
	done
	pair_job "$series" c c
	[ "$transports" != c ] || return 0
	pair_job "$series" rust c
	pair_job "$series" c rust
	pair_job "$series" rust rust
}

# broken <test> <reason>
broken() { echo "fail $1 $2" >>"$RESULTS"; }

# Leaves its jobs behind; test.sh waits for them.
guest_tests() {
	local PARALLEL RUST_KO TEST_KO main groups=(A B C E modules errors short exports exports-C)
	PARALLEL=$(parallel)
	# Long, so only in the long form or by name.
	for main in exports-E faults load suites; do
		[ -z "${SMBD_LONG:-}" ] && [[ $PATTERN != *"$main"* ]] || groups+=("$main")
	done
	suite_wanted guest || suite_wanted demo || return 0
	if [ -n "$SANITIZER" ]; then
		kernel_tests "$KVER" no "${groups[@]}"
		return
	fi
	main=$(cut -d' ' -f1 "$SMBD_CACHE/kernel/series-${KVER:-newest}" 2>/dev/null || true)
	if [ -z "$main" ] || suite_wanted "guest/$main" || suite_wanted "demo/$main"; then
		kernel_tests "$KVER" yes "${groups[@]}"
	fi
	# The first series that has SMB Direct as a module of its own.
	if [ -z "$KVER" ] && { suite_wanted guest/7.2 || suite_wanted demo/7.2; }; then
		kernel_tests 7.2 no smoke
	fi
}
