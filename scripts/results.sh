# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Collecting results: from cargo, from KTAP, into one file and one summary.  Sourced by test.sh
# and check.sh, which set RESULTS and PATTERN.  SMBD_RESULTS=file lets several of them share one
# summary, the last one's: so does .ci/run.

# suite_wanted <prefix>: can a test "<prefix>/..." match the pattern?  When the pattern's own
# first part is literal the answer is exact, otherwise yes.
suite_wanted() {
	local literal=${PATTERN%%[*?[]*}
	[[ $1/ == "$literal"* || $literal == "$1/"* || $literal == "$1" ]]
}

# begin <suite>, finish: a line per suite, like step, but with counts.
begin() {
	SUITE_START=$SECONDS SUITE_LINES=$(wc -l <"$RESULTS")
	printf '  %s ' "$1" >&2
}

finish() {
	local part
	part=$(tail -n +$((SUITE_LINES + 1)) "$RESULTS")
	printf '%s passed, %s failed, %s skipped (%d s)\n' "$(grep -c '^pass' <<<"$part")" \
		"$(grep -c '^fail' <<<"$part")" "$(grep -c '^skip' <<<"$part")" $((SECONDS - SUITE_START)) >&2
	grep -E '^(fail|skip)' <<<"$part" | sed 's/^/    /' >&2 || true
}

# take <file>: append the wanted results of a suite.
take() {
	local kind name rest
	while read -r kind name rest; do
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $name == $PATTERN ]] || continue
		echo "$kind $name $rest" >>"$RESULTS"
	done <"$1"
}

# cargo_results <log>: from "Running tests/x.rs" and "test a::b ... ok".
cargo_results() {
	awk '
		/^ *Running / { n = split($2 == "unittests" ? $3 : $2, a, "/"); unit = a[n]; sub(/\.rs$/, "", unit) }
		/^ *Doc-tests / { unit = "doc" }
		/^test .* \.\.\. / {
			name = $0; sub(/^test /, "", name); sub(/ \.\.\. .*/, "", name); gsub(/ /, "_", name)
			kind = /\.\.\. ok/ ? "pass" : /\.\.\. ignored/ ? "skip" : "fail"
			print kind, "host/" unit "/" name, (kind == "pass" ? "" : "see " FILENAME)
		}' "$1"
}

# ktap_results <prefix> <file>
ktap_results() {
	awk -v prefix="$1" '
		/^(not )?ok [0-9]+/ {
			kind = /^not/ ? "fail" : "pass"
			sub(/^(not )?ok [0-9]+ *(- *)?/, "")
			name = $0; reason = ""
			if (i = index($0, " # ")) { name = substr($0, 1, i - 1); reason = substr($0, i + 3) }
			if (reason ~ /^SKIP/) kind = "skip"
			sub(/ +$/, "", name); gsub(/ /, "_", name)
			print kind, prefix "/" name, reason
		}
		/^Bail out!/ { print "fail", prefix "/whole", $0 }' "$2"
}

# summary: name every failure and skip, then the line that says it all.
summary() {
	local p f s
	p=$(grep -c '^pass' "$RESULTS" || true)
	f=$(grep -c '^fail' "$RESULTS" || true)
	s=$(grep -c '^skip' "$RESULTS" || true)
	echo
	sed -n -e 's/^fail /failed:  /p' -e 's/^skip /skipped: /p' "$RESULTS"
	[ $((p + f + s)) -gt 0 ] || echo "no test matches T=$PATTERN"
	echo "$p passed, $f failed, $s skipped"
	[ "$f" -eq 0 ] && [ $((p + f + s)) -gt 0 ]
}
