#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
command -v shellcheck >/dev/null || { apt-get update -qq; apt-get install -qq -y shellcheck; } >/dev/null
passed=0 failed=0
while read -r f; do
	if shellcheck -x "$f"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done < <(git ls-files 'scripts/*.sh' 'tests/**.sh' .ci/run)
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
