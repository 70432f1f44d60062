#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The guest side of "make shell": everything up, then a shell.

# shellcheck source=tests/selftests/lib.sh
. "$TOP/tests/selftests/lib.sh"
for f in "topology_up ${TOPOLOGY:-A}" load_modules server_start smb_mount; do
	echo "shell: $f"
	# shellcheck disable=SC2086 # one word or two
	$f || echo "shell: $f failed: $WHY"
done
grep ' cifs ' /proc/mounts
cd $MNT 2>/dev/null || cd /tmp || exit
exec bash --norc -i
