#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Mutation testing of rust/proto: one change at a time to one module, which the module's own test
# file must notice.	mutants.sh [module...]		default: all modules with a test file
#
# cargo-mutants makes the changes, on a copy in which proto is a plain crate; it is installed once
# into the cache.  What no test can notice, with the reason, stands in tests/mutants.known; any
# other survivor makes this fail.  It takes hours for all of it; results of each module are kept.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# The newest that the compiler of the build root builds.
VERSION=25.0.1

ROOT=$("$TOP/scripts/root.sh")
export ROOT
tool=$("$TOP/scripts/cargo-tool.sh" cargo-mutants $VERSION --debug)
work=$SMBD_CACHE/run/mutants-$(hash_of "$TOP")
known=$TOP/tests/mutants.known
total=0 survived=0

in_root() { nice -n 15 "$TOP/scripts/enter-root.sh" CARGO_BUILD_JOBS="$JOBS" "$@"; }

# copy: the crate of the host tests with proto inside it, as cargo-mutants wants a crate; no tests yet.
copy() {
	rm -rf "$work/crate"
	mkdir -p "$work/crate/src"
	cp "$TOP"/tests/host/Cargo.{toml,lock} "$work/crate/"
	sed -i 's|, "../fuzz"||' "$work/crate/Cargo.toml"
	cp -r "$TOP/rust/proto" "$work/crate/src/"
	grep -v '^#\[path' "$TOP/tests/host/src/lib.rs" >"$work/crate/src/lib.rs"
}

# mutate <module>: exit status 2 (missed) and 3 (timeout) are results; 1 is a run that did not begin.
mutate() {
	local rc=0
	cd "$work/crate"
	rm -rf tests
	mkdir tests
	# The one test file: cargo would build all there are, for each change.
	cp -r "$TOP/tests/host/tests/common" "$TOP/tests/host/tests/$1.rs" tests/
	sed -i 's,\.\./\.\./rust/proto,src/proto,' "tests/$1.rs"
	in_root PATH="${tool%/*}:/usr/bin:/bin" CARGO_TARGET_DIR="$work/target" CARGO_PROFILE_TEST_OPT_LEVEL=0 \
		cargo mutants --jobs 1 --timeout 30 --no-shuffle --output "$work/$1" \
		--file "src/proto/$1.rs" || rc=$?
	[[ $rc =~ ^[023]$ ]] || die "cargo-mutants failed on $1 (exit $rc)"
}

# unexplained <module>: survivors that are not in the list, which leaves line and column out.
unexplained() {
	sed -E 's,^src/proto/([a-z]+\.rs):[0-9]+:[0-9]+: ,\1: ,' "$work/$1/mutants.out/missed.txt" |
		while read -r mutant; do grep -qF -- "$mutant #" "$known" || echo "$mutant"; done
}

count() { cat "${@/#/$work/$module/mutants.out/}" | wc -l; }

modules() {
	local m
	for m in $(basename -a -s .rs "$TOP"/rust/proto/*.rs); do
		[ ! -e "$TOP/tests/host/tests/$m.rs" ] || echo "$m"
	done
}

if [ $# -eq 0 ]; then
	mapfile -t all < <(modules)
	set -- "${all[@]}"
fi
for module; do
	[ -e "$TOP/tests/host/tests/$module.rs" ] || die "MODULE=$module is unknown; it is one of: $(modules | paste -sd' ')"
done
copy
for module; do
	step "mutants of $module" mutate "$module"
	printf '%s: %d caught, %d timed out, %d missed\n' "$module" "$(count caught.txt)" "$(count timeout.txt)" "$(count missed.txt)"
	unexplained "$module" | sed 's/^/  missed: /'
	total=$((total + $(count caught.txt timeout.txt missed.txt)))
	survived=$((survived + $(unexplained "$module" | wc -l)))
done
echo "$total mutants, $survived survive without a reason"
[ "$survived" -eq 0 ]
