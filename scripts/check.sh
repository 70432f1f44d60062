#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Every check of form: scripts, C, Rust format, layering, lints, documentation.  Same result lines
# and summary as test.sh; T=pattern picks some.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/results.sh
. "$TOP/scripts/results.sh"
# shellcheck source=scripts/check-layers.sh
. "$TOP/scripts/check-layers.sh"
# shellcheck source=scripts/check-rust.sh
. "$TOP/scripts/check-rust.sh"

KDIR=
PATTERN=${T:-*}
if [[ $PATTERN != check/* && $PATTERN != '*'* ]]; then
	# With tests beside it, in one summary, others may be meant.
	[ -z "${SMBD_RESULTS:-}" ] || exit 0
	die "no check is called $PATTERN; their names begin with check/"
fi
WORK=$SMBD_CACHE/run/check-$(date +%m%d-%H%M%S)-$$
RESULTS=${SMBD_RESULTS:-$WORK/results}
mkdir -p "$WORK"
touch "$RESULTS"
cd "$TOP"
# The checks say why, so a failing command must not end the script.
set +e

# check <name> <function>: what a failing one prints is its reason, whole in the log.
check() {
	local name=$1 log=$WORK/$1.log start=$SECONDS
	shift
	# shellcheck disable=SC2053
	[[ check/$name == $PATTERN ]] || return 0
	printf '  check/%s ' "$name" >&2
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "pass check/$name" >>"$RESULTS"
		printf '(%d s)\n' $((SECONDS - start)) >&2
	else
		echo "fail check/$name $(grep -v '^ *$' "$log" | head -n1) ($log)" >>"$RESULTS"
		printf 'FAILED\n' >&2
		head -n 20 "$log" | sed 's/^/    /' >&2
	fi
}

in_root() { "$TOP/scripts/enter-root.sh" "$@"; }

shell_scripts() { git ls-files '*.sh' .ci/run; }

c_files() { git ls-files 'rust/*.c' 'include/*.h' 'tests/kmod/*.[ch]'; }

check_shell() { shell_scripts | xargs "$TOP/scripts/enter-root.sh" shellcheck -x; }

# The kernel's own style.  What it says of EXPORT_SYMBOL cannot hold, the functions are in Rust;
# and %pA is "only for Rust", which is where our formats come from.
check_c() {
	c_files | xargs -r "$TOP/scripts/enter-root.sh" perl "$KERNEL/build/scripts/checkpatch.pl" --no-tree \
		--terse --quiet --show-types --no-summary --file --ignore EXPORT_SYMBOL,VSPRINTF_POINTER_EXTENSION
}

# No absolute path of somebody's machine, no host name of a mirror.
check_places() {
	! git grep -nE '(^|[[:space:]="(])/(home/[a-z]+|root)/|deb\.debian\.org|[a-z]+\.debian\.net' -- . ':!scripts/check.sh'
}

# Files and functions stay short enough to be read in one go.
check_sizes() {
	git ls-files '*.sh' '*.rs' '*.c' '*.h' | while read -r f; do
		[ "$(wc -l <"$f")" -le 700 ] || echo "$f has $(wc -l <"$f") lines"
	done | grep . && return 1
	return 0
}

# Each rule has the tests it needs, and the page with all of them is up to date.
check_traceability() { in_root python3 scripts/traceability.py -c; }

ROOT=$("$TOP/scripts/root.sh") && KERNEL=$("$TOP/scripts/kernel.sh") || exit 1
export ROOT
check shellcheck check_shell
check places check_places
check sizes check_sizes
check checkpatch check_c
check layers check_layers
check unsafe check_unsafe
check traceability check_traceability
check c-share check_c_share
check rustfmt check_rustfmt
check clippy check_clippy
check rustdoc check_rustdoc
summary
