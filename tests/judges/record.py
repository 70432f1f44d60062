#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn a capture of one mount into a recording that the host tests replay.

	record.py <tshark's JSON, with -x> <DebugData>

One line a message: who sent it (client, server), its length, the bytes of its header, and what tshark's
dissector says of them. The last lines are the client's counters when all was quiet.
"""

import json
import re
import sys

PORT = "5445"
HEADER = 32  # bytes: the longest header
FIELDS = {
    "smb_direct.version.min": "min",
    "smb_direct.version.max": "max",
    "smb_direct.version.negotiated": "version",
    "smb_direct.credits.requested": "requested",
    "smb_direct.credits.granted": "granted",
    "smb_direct.status": "status",
    "smb_direct.max_read_write_size": "max_read_write",
    "smb_direct.preferred_send_size": "preferred",
    "smb_direct.max_receive_size": "max_receive",
    "smb_direct.max_fragmented_size": "max_fragmented",
    "smb_direct.flags": "flags",
    "smb_direct.remaining_length": "remaining",
    "smb_direct.data_offset": "offset",
    "smb_direct.data_length": "length",
}
COUNTERS = {
    "send_credits": r"Current Credits send_credits: (\d+)",
    "receive_credits": r"Current Credits .* receive_credits: (\d+)",
    "receive_target": r"receive_credit_target: (\d+)",
    "stored": r"count_enqueue_reassembly_queue: (\d+)",
    "max_send_size": r"max_send_size: (\d+)",
    "max_receive_size": r"max_receive_size:(\d+)",
    "max_fragmented_send_size": r"max_fragmented_send_size: (\d+)",
}


def walk(pairs):
    """All (key, value) below, in order; a frame with several messages repeats keys."""
    for key, value in pairs:
        yield key, value
        if isinstance(value, Pairs):
            yield from walk(value)


class Pairs(list):
    """An object with its keys in order, none lost."""


def messages(frame):
    """The sender, and per message its bytes and its fields."""
    sender, raw = None, None
    for key, value in walk(frame):
        if key == "tcp.srcport":
            sender = "server" if value == PORT else "client"
        elif key == "smb_direct_raw":
            raw = value[0]
        elif key == "smb_direct" and raw is not None:
            fields = {FIELDS[k]: int(v, 0) for k, v in walk(value) if k in FIELDS}
            yield sender, raw, fields
            raw = None


def main():
    with open(sys.argv[1], encoding="utf-8") as capture:
        frames = json.load(capture, object_pairs_hook=Pairs)
    for frame in frames:
        for sender, raw, fields in messages(frame):
            told = " ".join(f"{name}={value}" for name, value in fields.items())
            print(sender, len(raw) // 2, raw[: 2 * HEADER], told)
    with open(sys.argv[2], encoding="utf-8") as text:
        debug = text.read()
    for name, pattern in COUNTERS.items():
        print("end", name, re.search(pattern, debug).group(1))


main()
