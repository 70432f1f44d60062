# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The layers of rust/ (Documentation/architecture): edges point down only, and the layers that
# carry the protocol are free of unsafe code.  Sourced by check.sh, which has cd'd to the clone.

# may_use <layer>: the layers below it.
may_use() {
	case $1 in
	abi) echo "conn proto rdma kern bindings" ;;
	conn) echo "proto rdma kern" ;;
	rdma) echo "kern bindings" ;;
	kern) echo "bindings" ;;
	proto) ;;
	esac
}

# uses <file>: the top-level modules of the crate that a file names, comments left out.  Also
# those in braces: use crate::{kern::x, rdma::y}.
uses() {
	sed -e 's,//.*,,' "$1" | tr '\n' ' ' | grep -oE 'crate::(\{[^;]*|[a-z_]+)' |
		sed -e 's/^crate:://' | tr '{,' '\n' | sed -nE 's/^ *([a-z_]+)(::.*|[ }]*)$/\1/p' |
		grep -xE 'abi|conn|proto|rdma|kern|bindings' | sort -u
}

check_layers() {
	local f layer used bad=0
	while read -r f; do
		layer=${f#rust/}
		layer=${layer%%[/.]*}
		for used in $(uses "$f"); do
			[[ " $layer $(may_use "$layer") " == *" $used "* ]] && continue
			echo "$f: $layer may not use $used"
			bad=1
		done
	done < <(git ls-files 'rust/*.rs' | grep -v -e smbdirect_main.rs -e '^rust/bindings.rs')
	return $bad
}

# The word, outside comments and strings, in the two layers that must not need it.
# shellcheck disable=SC2016 # the dollars are awk's
check_unsafe() {
	! git ls-files 'rust/proto/*.rs' 'rust/conn/*.rs' | xargs -r awk '
		{ line = $0; sub(/\/\/.*/, "", line); gsub(/"[^"]*"/, "", line); gsub(/unsafe_code|unsafe_op_in_unsafe_fn/, "", line) }
		line ~ /(^|[^a-z_])unsafe([^a-z_]|$)/ { print FILENAME ":" FNR ": " $0 }' | grep . || return 1
	"$TOP/scripts/unsafe-table.sh" -c
}

# C stays under a tenth of the module's lines.
check_c_share() {
	local c r
	c=$(git ls-files 'rust/*.c' 'include/smbdirect/*' | xargs -r cat | wc -l)
	r=$(git ls-files 'rust/*.rs' | xargs -r cat | wc -l)
	[ $((c * 10)) -lt $((c + r)) ] || { echo "C has $c lines of $((c + r)), more than a tenth"; return 1; }
}
