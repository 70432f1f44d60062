#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Each mistake and each missing thing is told in one clear sentence.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
S=$TOP/scripts
echo "TAP version 13"

# ---- kernel trees: a fake one that is right, spoiled in one place at a time ---------------------
cat >"$TMP/rustc" <<'R'
#!/bin/sh
echo "rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"
R
chmod +x "$TMP/rustc"

fake_kdir() {
	local k=$TMP/kdir
	rm -rf "$k"
	mkdir -p "$k"/include/{config,linux,rdma} "$k/rust"
	touch "$k/Makefile" "$k"/include/linux/smbdirect.h "$k"/include/rdma/{ib_verbs,rdma_cm,rw}.h "$k"/rust/lib{kernel.rmeta,macros.so}
	printf '%s\n' CONFIG_RUST=y CONFIG_INFINIBAND=m >"$k/include/config/auto.conf"
	echo 7.3.4+deb13-amd64 >"$k/include/config/kernel.release"
	printf 'rust\001\002rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)\003' >"$k/rust/libcore.rmeta"
}
kdir_check=(env RUSTC="$TMP/rustc" "$S/kdir-check.sh" "$TMP/kdir")
spoiled() { # <change> <expected words>
	fake_kdir
	(cd "$TMP/kdir" && eval "$1")
	says "$2" "${kdir_check[@]}"
}

fake_kdir
ok "kdir/good" "${kdir_check[@]}"
ok "kdir/not-a-folder" says "is not a folder" "$S/kdir-check.sh" "$TMP/nowhere"
ok "kdir/not-prepared" spoiled "rm include/config/auto.conf" "not a prepared kernel tree"
ok "kdir/older-than-7.2" spoiled "echo 7.1.9-amd64 >include/config/kernel.release" "is 7.1.9-amd64; smbdirect needs kernel 7.2"
ok "kdir/no-rust-config" spoiled "echo CONFIG_INFINIBAND=m >include/config/auto.conf" "without Rust"
ok "kdir/no-rust-tree" spoiled "rm rust/libkernel.rmeta" "has no Rust support tree"
ok "kdir/no-rdma" spoiled "echo CONFIG_RUST=y >include/config/auto.conf" "without RDMA"
ok "kdir/built-in" spoiled "echo CONFIG_SMBDIRECT=y >>include/config/auto.conf" "built in"
ok "kdir/missing-header" spoiled "rm include/linux/smbdirect.h" "header include/linux/smbdirect.h is missing"
ok "kdir/other-rustc" spoiled "echo 'rustc 1.90.0 (abcdef123 2025-09-01)' >rust/libcore.rmeta" "made by 'rustc 1.90.0 .*', but .* here is 'rustc 1.85.1"
ok "kdir/make-modules" says "is not a folder" make -C "$TOP" modules KDIR="$TMP/nowhere"
ok "kver/too-old" says "KVER=7.1 is too old" env KVER=7.1 "$S/kernel.sh"
ok "install/no-kdir" says "modules_install needs KDIR" env KDIR= "$S/modules.sh" modules_install
ok "fuzz/unknown-target" says "TARGET=perl is unknown; it is one of: connection depth" make -C "$TOP" fuzz TARGET=perl
ok "fuzz/no-target" says "TARGET= is unknown" make -C "$TOP" fuzz
ok "fuzz/no-number" says "SECONDS=ever is not a number" make -C "$TOP" fuzz TARGET=pdu SECONDS=ever
ok "soak/no-hours" says "HOURS= is not a number of hours" make -C "$TOP" soak
ok "soak/no-seed" says "SEED=often is not a number" make -C "$TOP" soak HOURS=1 SEED=often

# ---- the machine --------------------------------------------------------------------------------
# A port where nothing listens stands for a network that is down.
ok "network/root" says "no network: the package mirror" env SMBD_CACHE="$TMP/c1" MIRROR=http://127.0.0.1:9/debian "$S/root.sh"
no_kernel_network() {
	mkdir -p "$TMP/c2/root"
	# shellcheck source=scripts/lib.sh
	. "$S/lib.sh"
	root=$("$S/root.sh")
	ln -s "$root" "$TMP/c2/root/$(basename "$root")"
	says "no network: the package mirror" env SMBD_CACHE="$TMP/c2" http_proxy=http://127.0.0.1:9 "$S/kernel.sh"
}
ok "network/kernel" no_kernel_network

full_disk() {
	mkdir -p "$TMP/small"
	mount -t tmpfs -o size=20m tmpfs "$TMP/small" || return
	says "no room on disk: .* MiB free and this step needs" env SMBD_CACHE="$TMP/small" "$S/root.sh"
	local rc=$?
	umount "$TMP/small"
	return $rc
}
if [ "$(id -u)" -eq 0 ]; then
	ok "disk/full" full_disk
else
	skip "disk/full" "needs root to mount a small file system"
fi
ok "cache/not-writable" says "cannot write to the cache folder" env SMBD_CACHE=/proc/nowhere "$S/root.sh"
ok "qemu/no-accelerator" says "has no accelerator 'hvf'" env ACCEL=hvf TRANSPORT=c "$S/guest.sh" -- true
if [ -w /dev/kvm ]; then
	skip "qemu/no-kvm" "there is a /dev/kvm here"
else
	ok "qemu/no-kvm" says "kvm was asked for, but /dev/kvm is missing" env ACCEL=kvm TRANSPORT=c "$S/guest.sh" -- true
fi
ok "guest/unknown-transport" says "TRANSPORT=perl is unknown" env TRANSPORT=perl "$S/guest.sh" -- true
ok "guest/stands-still" says "the guest did not come up twice" env BOOT_BOUND=3 TRANSPORT=c "$S/guest.sh" -q -S -- true
ok "guest/no-module" says "does not exist; build it first" env SMBDIRECT_KO="$TMP/none.ko" "$S/guest.sh" -- true
finished
