# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How kbuild is called for the kernels of the cache, everywhere alike.  Sourced after lib.sh.

# kmake <kernel tree> <release> <make arguments...>: inside the build root, as Debian builds.
kmake() {
	local tree=$1 release=$2
	shift 2
	"$TOP/scripts/enter-root.sh" make -C "$tree" -j"$JOBS" ARCH=x86 CROSS_COMPILE=x86_64-linux-gnu- \
		CC=gcc-14 HOSTCC=gcc-14 HOSTCXX=g++-14 KERNELRELEASE="$release" "$@"
}
