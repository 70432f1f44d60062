#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Remove cached stages that this clone would not use now, and old logs and runs. Kernels with sanitizers, an hour's work
# each, stay.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
keep=("$("$TOP/scripts/root.sh")")
for KVER in "" 7.2; do
	[ -e "$SMBD_CACHE/kernel/series-${KVER:-newest}" ] || continue
	keep+=("$("$TOP/scripts/kernel.sh")" "$("$TOP/scripts/peers.sh")")
done
for d in "$SMBD_CACHE"/{root,kernel,peers}/*/; do
	d=${d%/}
	[[ " ${keep[*]} " == *" $d "* || $d == *-k[ac]san-* ]] || { say "  removing $d"; $SUDO rm -rf --one-file-system "$d"; }
done
$SUDO find "$SMBD_CACHE"/{logs,run} -mindepth 1 -maxdepth 1 -mtime +2 -exec rm -rf {} +
