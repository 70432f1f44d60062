# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# rustfmt, clippy and rustdoc as the kernel runs them on its own Rust code; kbuild offers none of
# the three to external modules except CLIPPY=1.  Sourced by check.sh.

check_rustfmt() {
	git ls-files 'rust/*.rs' 'tests/*.rs' | xargs -r "$TOP/scripts/enter-root.sh" \
		rustfmt --edition 2021 --config-path "$KERNEL/build/.rustfmt.toml" --check
}

# check_clippy: a build of its own, since clippy takes the compiler's place; no warning is allowed.
check_clippy() {
	local log=$WORK/clippy.out
	"$TOP/scripts/modules.sh" clippy >"$log" 2>&1 || { cat "$log"; return 1; }
	! grep -aE -A6 '^(warning|error)' "$log"
}

# check_rustdoc: after clippy, whose record of the compiler's options it uses.
check_rustdoc() { "$TOP/scripts/modules.sh" rustdoc; }
