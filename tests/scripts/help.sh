#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make help" knows every target and every variable that the Makefile passes on.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
echo "TAP version 13"
help=$(make -s -C "$TOP" help)

targets=$(sed -n 's/^\.PHONY: //p' "$TOP/Makefile")
variables=$(sed -n 's/^export //p' "$TOP/Makefile" | head -n1)
variables+=" TARGET SECONDS HOURS SEED CASE PAIRS RUNS MODULE PROFILE SANITIZER TOPOLOGY"
named() { grep -qE "(^|[ /])$1([ =]|\$)" <<<"$help"; }
for t in $targets; do
	case $t in help | all) continue ;; esac
	ok "help/target-$t" named "$t"
done
for v in $variables; do
	ok "help/variable-$v" named "$v"
done
finished
