#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The budget of unsafe code, file by file, in Documentation/unsafe.rst between its markers.
#	unsafe-table.sh		write it anew
#	unsafe-table.sh -c	fail if it is not up to date
set -euo pipefail
cd "$(dirname "$0")/.."
page=Documentation/unsafe.rst

# count <pattern> <file>: occurrences outside comments.
count() { sed 's,//.*,,' "$2" | { grep -oE "$1" || true; } | wc -l; }

table() {
	local f blocks functions impls
	printf '.. list-table::\n   :header-rows: 1\n\n'
	printf '   * - File\n     - Blocks\n     - Functions\n     - Implementations\n'
	git ls-files 'rust/*.rs' | while read -r f; do
		blocks=$(count 'unsafe \{|unsafe$' "$f")
		functions=$(count 'unsafe (extern "C" )?fn [a-z]' "$f")
		impls=$(count 'unsafe (impl|trait)' "$f")
		[ $((blocks + functions + impls)) -gt 0 ] || continue
		# shellcheck disable=SC2016 # those quotes are markup
		printf '   * - ``%s``\n     - %d\n     - %d\n     - %d\n' "$f" "$blocks" "$functions" "$impls"
	done
}

updated() {
	sed -n '1,/unsafe-table-begin/p' $page
	printf '\n'
	table
	printf '\n'
	sed -n '/unsafe-table-end/,$p' $page
}

if [ "${1:-}" = -c ]; then
	diff <(updated) $page >/dev/null || {
		echo "$page is out of date; run scripts/unsafe-table.sh"
		exit 1
	}
else
	updated >$page.new
	mv $page.new $page
fi
