# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest tests: which groups run on which kernel with which module.  Sourced by test.sh.

# How long a group may take in the guest, in seconds: about four times what it needs.
GROUP_BOUND=900

# guest_group <kernel series> <transport> <group>: one boot.
guest_group() {
	local prefix=guest/$1/$2/$3 run=$WORK/$1-$2-$3 rc=0 pattern
	suite_wanted "$prefix" || return 0
	begin "$prefix"
	# Names in the guest lack the prefix; a pattern that reaches into the cell part is cut to fit.
	pattern='*'
	# shellcheck disable=SC2153 # PATTERN is test.sh's
	[[ $PATTERN != "$prefix"/* ]] || pattern=${PATTERN#"$prefix"/}
	KVER=$1 TRANSPORT=$2 "$TOP/scripts/guest.sh" -t $GROUP_BOUND -d "$run" -- \
		"$TOP/tests/selftests/run.sh" "$3" "$pattern" 2>"$run.err" || rc=$?
	touch "$run/out"
	ktap_results "$prefix" "$run/out" >"$run.results"
	[ "$rc" -le 1 ] || unfinished "$prefix" "$3" "$run" "$rc" "$pattern"
	take "$run.results"
	finish
}

# unfinished <prefix> <group> <run> <rc> <pattern>: the guest hung or died; its other tests fail by name.
unfinished() {
	local n reason
	case $4 in
	124) reason="the guest did not finish in time" ;;
	125) reason="the guest died" ;;
	*) reason="$(sed -n 's/^error: //p' "$3.err" | head -n1)" ;;
	esac
	LIST=1 "$TOP/tests/selftests/run.sh" "$2" | while read -r n; do
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $n == $5 ]] || continue
		grep -q " $1/$n " "$3.results" || echo "fail $1/$n ${reason:-no result} ($3)"
	done >"$3.missing"
	cat "$3.missing" >>"$3.results"
}

# main_series: the series that KVER= or the cache says, as it stands in test names.
main_series() {
	"$TOP/scripts/peers.sh" >/dev/null || return
	cut -d' ' -f1 "$SMBD_CACHE/kernel/series-${KVER:-newest}"
}

# guest_groups <series> <groups...>: each for our module and, as control, for the C module.
guest_groups() {
	local series=$1 g ko
	shift
	for g in "$@"; do
		guest_group "$series" c "$g"
	done
	suite_wanted "guest/$series/rust" || return 0
	if ! ko=$(KVER=$series "$TOP/scripts/modules.sh" modules); then
		echo "fail guest/$series/rust/build smbdirect.ko does not build (see above)" >>"$RESULTS"
		return
	fi
	for g in "$@"; do
		SMBDIRECT_KO=$ko guest_group "$series" rust "$g"
	done
}

guest_tests() {
	local series
	suite_wanted guest || return 0
	series=$(main_series)
	guest_groups "$series" A B C E modules
}
