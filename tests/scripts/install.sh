#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A real machine's way: a prepared kernel tree, the machine's own tools, plain kbuild in the clone,
# modules_install.  The build root plays the machine.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
: "${SMBD_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/smbdirect-rs}"
export SMBD_CACHE
KERNEL=$("$TOP/scripts/kernel.sh") || exit 1
RELEASE=$(<"$KERNEL/release")
HERE=$SMBD_CACHE/run/install-$$
trap 'rm -rf "$TMP" "$HERE"' EXIT
echo "TAP version 13"

mkdir -p "$HERE"
(cd "$TOP" && git ls-files -z | xargs -0 tar c --ignore-failed-read) | tar x -C "$HERE"
cd "$HERE" || exit 1
machine() { "$TOP/scripts/enter-root.sh" INSTALL_MOD_PATH="$HERE/dest" "$@"; }
# The kernel's configuration says whether installed modules are compressed.
installed() { echo "$HERE/dest/lib/modules/$RELEASE"/updates/smbdirect.ko*; }

right_module() { machine modinfo -F vermagic "$(installed)" | grep -q "^$RELEASE "; }
one_name() { [ "$(machine modinfo -F name "$(installed)")" = smbdirect ]; }
clean() {
	make clean && ! find . -path ./dest -prune -o \( -name '*.ko' -o -name '*.o' -o -name '*_generated.rs' -o -name '.*.cmd' \) -print | grep .
}
ok "install/modules" machine make modules KDIR="$KERNEL/build"
ok "install/modules_install" machine make modules_install KDIR="$KERNEL/build"
ok "install/for-this-release" right_module
ok "install/named-smbdirect" one_name
ok "install/clean" clean
finished
