#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Can this kernel tree build our module?  One clear sentence if not; kbuild would fail somewhere
# in the middle.	kdir-check.sh <kernel tree>

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
kdir=$1

# version_of: "rustc 1.85.1 (commit date)", from --version or from the inside of a library.
version_of() { grep -aoE -m1 'rustc [0-9]+\.[0-9]+\.[0-9]+[^ ]* \([^)]*\)' | head -n1; }

conf=$kdir/include/config/auto.conf

[ -d "$kdir" ] || die "KDIR=$kdir is not a folder"
[ -e "$kdir/Makefile" ] && [ -e "$conf" ] ||
	die "KDIR=$kdir is not a prepared kernel tree (no Makefile or no include/config/auto.conf); run 'make modules_prepare' in it"

release=$(cat "$kdir/include/config/kernel.release" 2>/dev/null || true)
[ "$(printf '%s\n' 7.2 "${release%%[-+]*}" | sort -V | head -n1)" = 7.2 ] ||
	die "the kernel in KDIR=$kdir is ${release:-of unknown release}; smbdirect needs kernel 7.2 or later"

grep -q '^CONFIG_RUST=y' "$conf" ||
	die "the kernel in KDIR=$kdir was configured without Rust (CONFIG_RUST); use a kernel built with CONFIG_RUST=y"
grep -Eq '^CONFIG_INFINIBAND=[ym]' "$conf" ||
	die "the kernel in KDIR=$kdir was configured without RDMA (CONFIG_INFINIBAND)"
! grep -q '^CONFIG_SMBDIRECT=y' "$conf" ||
	die "the kernel in KDIR=$kdir has its own smbdirect built in (CONFIG_SMBDIRECT=y); it must be a module or off"

for h in include/linux/smbdirect.h include/rdma/ib_verbs.h include/rdma/rdma_cm.h include/rdma/rw.h; do
	[ -e "$kdir/$h" ] || [ -e "$kdir/source/$h" ] || die "the header $h is missing in KDIR=$kdir; is the tree complete?"
done
for f in rust/libcore.rmeta rust/libkernel.rmeta rust/libmacros.so; do
	[ -e "$kdir/$f" ] ||
		die "KDIR=$kdir has no Rust support tree ($f is missing), as in Debian's header packages; prepare one from the kernel's source ('make modules_prepare'), or leave KDIR= out to use the cached one"
done

# The compiler must be the very one that made the support tree; rustc would end in E0514.
rustc=${RUSTC:-rustc}
command -v "$rustc" >/dev/null || die "there is no Rust compiler ($rustc); install the one the kernel in KDIR=$kdir was built with"
have=$("$rustc" --version | version_of)
made=$(version_of <"$kdir/rust/libcore.rmeta")
[ "$have" = "$made" ] ||
	die "the Rust support tree in KDIR=$kdir was made by '$made', but $rustc here is '$have'; both must be the same"
