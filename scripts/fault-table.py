#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table of faults for the documentation, from what fault-table.sh measured: fault-table.py <tsv> <kernel>"""

import collections
import csv
import statistics
import sys

# What each test does; the names are those of tests/selftests/groups.sh.
FAULTS = {
    "fault-link": "a cable is pulled for 5 s",
    "fault-link-long": "the same for 30 s",
    "fault-link-minutes": "the same for 3 min",
    "fault-loss": "1 % of the packets lost for 15 s",
    "fault-loss-heavy": "10 % lost for 15 s",
    "fault-disorder": "packets overtaken and damaged, 15 s",
    "fault-silence": "all packets lost for 30 s",
    "fault-rdma-lost": "RDMA packets lost for 30 s",
    "fault-server-device": "the server's RDMA device removed",
    "fault-client-device": "the client's RDMA device removed",
    "fault-server-stop": "ksmbd stopped and started",
    "fault-server-killed": "its user-space half killed",
    "fault-server-module": "its module unloaded and loaded",
    "fault-soft": "silence under a soft mount",
    "fault-unmount": "silence, then ``umount -f``",
    "fault-detect": "silence without work: it is noticed",
    "channel-lost": "the first of two RDMA channels silent",
    "channel-second": "the second one's device removed",
    "siw-fault-address": "siw: the server's address removed for 10 s",
    "siw-fault-loss": "siw: 1 % of the packets lost for 15 s",
    "siw-fault-loss-heavy": "siw: 10 % lost for 15 s",
    "siw-fault-disorder": "siw: packets overtaken and damaged, 15 s",
    "siw-fault-silence": "siw: all packets lost for 30 s",
    "siw-fault-rdma-lost": "siw: RDMA's TCP port blocked for 30 s",
    "siw-fault-server-stop": "siw: ksmbd stopped and started",
    "siw-fault-server-killed": "siw: its user-space half killed",
    "far-link": "two guests: all packets lost for 5 s",
    "far-silence": "two guests: the same for 30 s",
    "far-loss": "two guests: 1 % of the client's packets lost, 15 s",
    "far-rdma-lost": "two guests: the client's RDMA packets lost, 30 s",
    "far-server-device": "two guests: the server's RDMA device removed",
    "far-server-stop": "two guests: ksmbd stopped and started",
    "far-server-killed": "two guests: its user-space half killed",
    "far-server-module": "two guests: its module unloaded and loaded",
    "far-siw-link": "two guests, siw: all packets lost for 5 s",
    "far-siw-silence": "two guests, siw: the same for 30 s",
    "far-siw-loss": "two guests, siw: 1 % lost for 15 s",
    "far-siw-rdma-lost": "two guests, siw: RDMA's port blocked for 30 s",
    "far-siw-server-stop": "two guests, siw: ksmbd stopped and started",
    "far-siw-server-killed": "two guests, siw: its user-space half killed",
    "far-siw-server-module": "two guests, siw: its module unloaded and loaded",
}


def cell(runs):
    """One module's runs of one fault: how many were fine, how long it took, and what went wrong."""
    if not runs:
        return "not measured"
    fine = [run for run in runs if run["result"] == "pass"]
    text = f"{len(fine)} of {len(runs)} fine"
    times = sorted(int(run["ms"]) / 1000 for run in runs if run["ms"])
    if times:
        text += f"; median {statistics.median(times):.1f} s ({', '.join(f'{t:.1f}' for t in times)})"
    for reason, n in collections.Counter(run["reason"] for run in runs if run not in fine).items():
        text += f"; {n} times: {reason}"
    return text.replace("*", r"\*").replace("|", r"\|").replace("`", "'")


def slower(rows, test):
    """Whether our mount came back later than the C module's by more than one try of cifs (8 s)."""
    both = {m: [int(r["ms"]) for r in rows if r["test"] == test and r["module"] == m and r["ms"]] for m in ("c", "rust")}
    return all(both.values()) and statistics.median(both["rust"]) > statistics.median(both["c"]) + 8000


def main():
    with open(sys.argv[1], encoding="utf-8") as tsv:
        fields = ["test", "module", "run", "result", "ms", "reason"]
        rows = list(csv.DictReader(tsv, fields, delimiter="\t", quoting=csv.QUOTE_NONE))
    unknown = {r["test"] for r in rows} - set(FAULTS)
    if unknown:
        sys.exit("no words for: " + ", ".join(sorted(unknown)))
    print(".. SPDX-License-Identifier: GPL-2.0")
    print(".. Made by ``make fault-table``; do not edit.\n")
    print(f"Kernel {sys.argv[2]}, in a guest under emulation.\n")
    print(".. list-table::\n   :header-rows: 1\n   :widths: 24 18 29 29\n")
    print("   * - Fault\n     - Test\n     - C module\n     - our module")
    for test, fault in FAULTS.items():
        print(f"   * - {fault}\n     - ``{test}``")
        for module in "c", "rust":
            print("     - " + cell([r for r in rows if r["test"] == test and r["module"] == module]))
    bad = {r["test"] for r in rows if r["module"] == "rust" and r["result"] != "pass"}
    bad |= {test for test in FAULTS if slower(rows, test)}
    sys.exit("not fine with our module: " + ", ".join(sorted(bad)) if bad else 0)


main()
