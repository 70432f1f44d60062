#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Generate the Rust bindings in two passes.
#
# usage: bindgen.sh BINDGEN HEADER OUT KERNEL_BINDINGS BINDGEN_ARGS... -- CLANG_ARGS...
#
# The first pass shows which types our headers reach. Those which the kernel crate's own bindings
# have too are blocked in the second pass, so both crates share one type for each of them; all but
# those the kernel crate only knows by name and our headers define.
set -eu

bindgen=$1 header=$2 out=$3 kernel=$4
shift 4

# Names of the types in a file of bindings. With "defined", not those that are only declared.
type_names() {
	awk -v defined="${2:-}" '
		held && !(defined && /_unused: \[u8; 0/) { print held }
		{ held = "" }
		/^pub (struct|union|type|enum) / { held = $3; sub(/[^A-Za-z0-9_].*/, "", held) }
		END { if (held) print held }
	' "$1" | sort -u
}

allow_functions='smbd_.*|_*ib_.*|_*rdma_.*|smbdirect_.*|extract_iter_to_sg|irq_poll_(dis|en)able|netdev_.*lower.*'
allow_vars='(IB_|RDMA_|SMBDIRECT_|ARPHRD_INFINIBAND).*'
allow_types='ib_.*|rdma_.*|smbdirect_.*|smbd_.*|proto_accept_arg|msghdr|net|net_device|sockaddr.*'

generate() {
	"$bindgen" "$header" --allowlist-function "$allow_functions" \
		--allowlist-var "$allow_vars" --allowlist-type "$allow_types" "$@"
}

generate -o "$out.pass1" "$@"
type_names "$out.pass1" >"$out.ours"
type_names "$out.pass1" defined >"$out.ours-defined"
type_names "$kernel" >"$out.kernels"
type_names "$kernel" defined >"$out.kernels-defined"
shared=$({
	comm -12 "$out.ours" "$out.kernels-defined"
	comm -23 "$out.ours" "$out.ours-defined" | comm -12 - "$out.kernels"
} | sort -u | paste -sd '|' -)
generate --blocklist-item "^($shared)\$" -o "$out.pass2" "$@"
mv "$out.pass2" "$out"
rm -f "$out.pass1" "$out.ours" "$out.ours-defined" "$out.kernels" "$out.kernels-defined"
