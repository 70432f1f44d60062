# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How kbuild is called for the kernels of the cache, everywhere alike.  Sourced after lib.sh.

# kmake <kernel tree> <release> <make arguments...>: inside the build root, as Debian builds; Rust with a
# sanitizer, which the release names, wants a kernel that is built by clang.
kmake() {
	local tree=$1 release=$2 tools=(CC=gcc-14 HOSTCC=gcc-14 HOSTCXX=g++-14)
	shift 2
	[[ $release != *-k[ac]san ]] || tools=(LLVM=-19)
	"$TOP/scripts/enter-root.sh" make -C "$tree" -j"$JOBS" ARCH=x86 CROSS_COMPILE=x86_64-linux-gnu- \
		"${tools[@]}" KERNELRELEASE="$release" "$@"
}
