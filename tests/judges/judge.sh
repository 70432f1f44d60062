#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Judge a mount that test_wire captured in a guest:	judge.sh <run folder> [test]
# tshark dissects the capture, record.py makes a recording of it (<run>/recording.txt), and the host
# tests compare and replay it.  Another module's mount can only be compared: it grants as it likes.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../../scripts/lib.sh"
run=$1 test=${2:-}

# iWARP is only found by looking at the bytes: the port is an ordinary one.
"$TOP/scripts/enter-root.sh" tshark -r "$run/wire.pcapng" -o tcp.try_heuristic_first:TRUE \
	-Y smb_direct -T json -x -J "tcp smb_direct" >"$run/wire.json"
"$TOP/scripts/enter-root.sh" python3 "$TOP/tests/judges/record.py" "$run/wire.json" "$run/wire.debugdata" >"$run/recording.txt"
cd "$TOP/tests/host"
"$TOP/scripts/enter-root.sh" CARGO_TARGET_DIR="$SMBD_CACHE/target/$(hash_of "$TOP")" \
	SMBD_RECORDING="$run/recording.txt" cargo test --test judges ${test:+"$test"}
