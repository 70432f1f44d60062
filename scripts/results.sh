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

# begin <suite>: name it; finish <suite> <file of results>: take the wanted ones, tell how it went.
begin() { printf '  %s ...\n' "$1" >&2; eval "STARTED_${1//[^a-zA-Z0-9]/_}=$SECONDS"; }

finish() {
	local suite=$1 file=$2 start=STARTED_${1//[^a-zA-Z0-9]/_} kind name rest
	while read -r kind name rest; do
		# shellcheck disable=SC2053 # the right side is a pattern
		[[ $name != $PATTERN ]] || printf '%s %s %s\n' "$kind" "$name" "$rest"
	done <"$file" >"$file.wanted"
	cat "$file.wanted" >>"$RESULTS"
	{
		printf '  %s: %d passed, %d failed, %d skipped (%d s)\n' "$suite" "$(grep -c '^pass' "$file.wanted")" \
			"$(grep -c '^fail' "$file.wanted")" "$(grep -c '^skip' "$file.wanted")" $((SECONDS - ${!start}))
		grep -E '^(fail|skip)' "$file.wanted" | sed 's/^/    /'
	} >&2 || true
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
			if (sub(/^SKIP */, "", reason)) kind = "skip"
			# ktap_test_skip has no room for a reason and adds a directive of its own.
			sub(/ *# SKIP$/, "", reason)
			sub(/ +$/, "", name); gsub(/ /, "_", name)
			print kind, prefix "/" name, reason
		}
		/^Bail out!/ { print "fail", prefix "/whole", $0 }' "$2"
}

# control_alone <file of results>: what the control fails and our module, in the same test, passes is a finding
# about the control. It is named among the skips; where ours fails too, or the control passes nothing of
# its group, both count.
control_alone() {
	awk '
		{ kind[NR] = $1; name[NR] = $2; line[NR] = $0; seen[$1, $2] }
		function ours(n,  part, k, i) {
			k = split(n, part, "/")
			if (part[3] == "c") part[3] = "rust"
			else if (part[3] == "pair" && part[4] == "c-to-c") part[4] = "rust-to-rust"
			else if ((part[3] == "power" || part[3] == "far") && part[4] == "c") part[4] = "rust"
			n = part[1]
			for (i = 2; i <= k; i++) n = n "/" part[i]
			return n
		}
		# guest/<kernel>/<module>/<group>
		function group(n,  a) { split(n, a, "/"); return a[1] "/" a[2] "/" a[3] "/" a[4] }
		END {
			for (i = 1; i <= NR; i++) if (kind[i] == "pass") passed[group(name[i])]
			for (i = 1; i <= NR; i++) if (kind[i] == "fail") failed[group(name[i])]
			for (i = 1; i <= NR; i++) {
				o = ours(name[i])
				alone = kind[i] == "fail" && o != name[i] && group(name[i]) in passed && \
					(("pass", o) in seen || o ~ /\/whole$/ && group(o) in passed && !(group(o) in failed))
				if (alone) sub(/^fail [^ ]*/, "skip " name[i] " the control alone fails this:", line[i])
				print line[i]
			}
		}' "$1" >"$1.judged"
	mv "$1.judged" "$1"
}

# summary: name every failure and skip, then the line that says it all.
summary() {
	local p f s
	control_alone "$RESULTS"
	p=$(grep -c '^pass' "$RESULTS" || true)
	f=$(grep -c '^fail' "$RESULTS" || true)
	s=$(grep -c '^skip' "$RESULTS" || true)
	echo
	sed -n -e 's/^fail /failed:  /p' -e 's/^skip /skipped: /p' "$RESULTS"
	[ $((p + f + s)) -gt 0 ] || echo "no test matches T=$PATTERN"
	echo "$p passed, $f failed, $s skipped"
	[ "$f" -eq 0 ] && [ $((p + f + s)) -gt 0 ]
}
