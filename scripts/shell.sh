#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# An interactive guest with the share mounted over SMB Direct on /mnt/a.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
KDIR=
if [ "$TRANSPORT" = rust ]; then
	SMBDIRECT_KO=$("$TOP/scripts/modules.sh" build)
	export SMBDIRECT_KO
fi
say "  leave with 'exit' (or Ctrl-A X); the clone and the build root are there read-only"
exec "$TOP/scripts/guest.sh" -i -v TOPOLOGY="${TOPOLOGY:-A}" -- "$TOP/tests/selftests/shell.sh"
