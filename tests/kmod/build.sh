#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Build smbdirect_test.ko for the cached kernel and print its path.  It links against the C
# module's symbol list: the exports have the same names and, without MODVERSIONS, no checksums.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"
# shellcheck source=scripts/kmake.sh
. "$TOP/scripts/kmake.sh"

ROOT=$("$TOP/scripts/root.sh")
KERNEL=$("$TOP/scripts/kernel.sh")
PEERS=$("$TOP/scripts/peers.sh")
export ROOT
out=$SMBD_CACHE/build/$(hash_of "$TOP")/$(basename "$KERNEL")-kmod

build() {
	kmake "$KERNEL/build" "$(<"$KERNEL/release")" M="$TOP/tests/kmod" MO="$out" \
		KBUILD_EXTRA_SYMBOLS="$PEERS/symvers" modules ||
		die "smbdirect_test.ko does not build: $(grep -aE -m1 '(error|ERROR)' "$STEP_LOG")"
	"$TOP/scripts/enter-root.sh" strip --strip-debug -o "$out/guest/smbdirect_test.ko" "$out/smbdirect_test.ko"
}

mkdir -p "$out/guest"
exec {fd}>"$SMBD_CACHE/locks/build-$(hash_of "$out").lock"
flock "$fd"
step "smbdirect_test.ko for $(<"$KERNEL/release")" build
printf '%s\n' "$out/guest/smbdirect_test.ko"
