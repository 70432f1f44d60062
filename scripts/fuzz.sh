#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Fuzz rust/proto with a target of tests/fuzz:	fuzz.sh fuzz <target> [seconds]
#						fuzz.sh fuzz-min <target>
#
# cargo-fuzz builds the target, in the build root and with its compiler; libFuzzer then runs from
# the committed corpus and a working one in the cache, which takes the new finds.  fuzz-min makes
# the committed corpus the least set of files that covers what both cover; files with a name of
# their own, not a hash, stay.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mode=$1 target=$2 time=${3:-60}
# The newest that the compiler of the build root builds.
VERSION=0.12.0

targets() { basename -a -s .rs "$TOP"/tests/fuzz/fuzz_targets/*.rs; }
targets | grep -qxF -- "$target" || die "TARGET=$target is unknown; it is one of: $(targets | paste -sd' ')"
[[ $time =~ ^[1-9][0-9]*$ ]] || die "SECONDS=$time is not a number of seconds"

ROOT=$("$TOP/scripts/root.sh")
export ROOT
tool=$("$TOP/scripts/cargo-tool.sh" cargo-fuzz $VERSION)
build=$SMBD_CACHE/target/fuzz-$(hash_of "$TOP")
work=$SMBD_CACHE/fuzz/$target
corpus=$TOP/tests/fuzz/corpus/$target
mkdir -p "$work/found"

in_root() { "$TOP/scripts/enter-root.sh" CARGO_BUILD_JOBS="$JOBS" CXX=g++-14 "$@"; }

# cargo-fuzz looks for its project upwards from a crate that is not the fuzz crate.  No input has a
# word to be guessed from a comparison; without that instrumentation they run three times as fast.
build_target() {
	cd "$TOP/tests/host"
	in_root "$tool" fuzz build --fuzz-dir ../fuzz --sanitizer none --no-trace-compares --features libfuzzer \
		--target-dir "$build" "$target"
}

# libfuzzer <arguments>: the target's program.
libfuzzer() { in_root "$build/x86_64-unknown-linux-gnu/release/$target" -max_len=512 "$@" >"$work/log" 2>&1; }

run_target() {
	libfuzzer -max_total_time="$time" -artifact_prefix="$work/" "$work/found" "$corpus" && return
	local artifact why
	artifact=$(sed -n 's/.*Test unit written to //p' "$work/log" | tail -n1)
	why=$(grep -A1 -m1 'panicked at' "$work/log" | paste -sd' ')
	[ -n "$artifact" ] || die "the fuzz target $target did not run" "$work/log"
	die "${why:-the target ends}; replay: cp $artifact tests/fuzz/corpus/$target/ && make test T=host/replay/$target" "$work/log"
}

# From "#3272104 DONE cov: 123 ft: 199 corp: 71/1226b ... exec/s: 204506 ...".
tell() {
	awk -v target="$target" '$2 == "DONE" {
		for (i = 3; i < NF; i++) value[$i] = $(i + 1)
		sub(/#/, "", $1)
		printf "%s: %d executions, %d per second; coverage %d edges, %d features; corpus %d files\n",
			target, $1, value["exec/s:"], value["cov:"], value["ft:"], value["corp:"]
	}' "$work/log"
}

# merge <options>: the least corpus.
merge() {
	rm -rf "$work/least"
	mkdir "$work/least"
	libfuzzer -merge=1 "$@" "$work/least" "$corpus" "$work/found" || die "the merge failed" "$work/log"
}

# By edges and by how often each is taken; by edges alone where that keeps too many files.
minimise() {
	merge
	[ "$(find "$work/least" -type f | wc -l)" -le 200 ] || merge -use_counters=0
	find "$corpus" -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
	cp "$work"/least/* "$corpus/"
}

step "fuzz target $target" build_target
case $mode in
fuzz)
	step "$target for $time s" run_target
	tell
	;;
fuzz-min)
	step "least corpus of $target" minimise
	printf '%s: %d files, %d bytes\n' "$target" "$(find "$corpus" -type f | wc -l)" "$(cat "$corpus"/* | wc -c)"
	;;
esac
