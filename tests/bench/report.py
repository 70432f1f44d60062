#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What "make bench" measured: report.py <run> <kernel> <commit> [folder]

Prints the table. With a folder, writes bench.rst, bench.json and bench.svg there. The guest's clock goes on by 2 ns with
each instruction, so time in the guest divided by 2 ns is the number of instructions, of client, server and provider
together, plus what passed while nobody had anything to do.
"""

import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap

NS_PER_INSTRUCTION = 2
ARMS = ("c", "rust", "tcp", "larger", "nfs")
MAIN = ARMS[:3]


def counted(text):
    """Context switches, and ticks of all processors with and without work, from /proc/stat; our module's counters."""
    lines = [line.split() for line in text.splitlines()]
    values = {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}
    cpu = next([int(n) for n in words[1:]] for words in lines if words[0] == "cpu")
    values["idle"], values["ticks"] = cpu[3] + cpu[4], sum(cpu[:8])
    return values


def from_fio(result):
    """Operations, their time in ns and percentiles in us, of a fio job."""
    job = result["jobs"][0]
    part = max((job["read"], job["write"]), key=lambda p: p["total_ios"])
    percentile = part["clat_ns"]["percentile"]
    return {
        "ops": part["total_ios"],
        "bytes": part["io_bytes"],
        "ns": part["runtime"] * 1e6,
        "p50_us": percentile["50.000000"] / 1000,
        "p99_us": percentile["99.000000"] / 1000,
    }


def from_files(result):
    """The same of small files: one operation is all four of a file."""
    return {"ops": result["files"], "bytes": 0, "ns": sum(result["seconds"].values()) * 1e9, "seconds": result["seconds"]}


def measurement(base):
    """One case of one arm in one pair."""
    result = json.loads(base.with_name(base.name + ".json").read_text())
    m = from_fio(result) if "jobs" in result else from_files(result)
    before, after = (counted(base.with_name(f"{base.name}.{when}").read_text()) for when in ("before", "after"))
    grown = {name: after[name] - before[name] for name in before if name in after}
    m["ns_per_op"] = m["ns"] / m["ops"]
    m["switches_per_op"] = grown.pop("ctxt") / m["ops"]
    m["idle"] = grown.pop("idle") / max(1, grown.pop("ticks"))
    known = ("processes", "procs_running", "procs_blocked", "btime", "longest_teardown_ms")
    m["counters_per_op"] = {n: round(v / m["ops"], 3) for n, v in grown.items() if v and n not in known}
    return m


def load(run):
    """Case -> arm -> pair -> measurement."""
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(run.glob("**/bench/*.json"), key=lambda p: (p.parent, p.stat().st_mtime)):
        match = re.fullmatch(rf"(.*)\.([^.]+)\.(\d+)\.({'|'.join(ARMS)})", path.stem)
        if not match:
            continue
        cases[f"{match[1]}/{match[2]}"][match[4]][int(match[3])] = measurement(path.with_suffix(""))
    return cases


def verbs(run):
    """Lines of the floor: name and what perftest says."""
    rows = [["raw verbs", "one way, us", "MiB/s"]]
    for path in sorted(run.glob("**/bench/*.verbs.json")):
        result = json.loads(path.read_text())["results"]
        name = path.name.replace(".1.verbs.json", "").replace(".", "/", 1)
        rows.append([name, shown(result.get("t_typical"), ".0f"), shown(result.get("BW_average"), ".0f")])
    return rows


def ratios(case, arm, to):
    """Speed of one arm against another, pair by pair: above 1 is faster."""
    return sorted(case[to][p]["ns_per_op"] / case[arm][p]["ns_per_op"] for p in case[arm] if p in case[to])


def median(case, arm, key):
    """The median of the pairs, or None where the arm has none."""
    values = [m[key] for m in case[arm].values() if key in m]
    return statistics.median(values) if values else None


def shown(value, form):
    """A number, or a dash for none."""
    return "-" if value is None else format(value, form)


def row(name, case):
    """One line of the table."""
    of_c, of_tcp = ratios(case, "rust", "c"), ratios(case, "rust", "tcp")
    us = [median(case, arm, "ns_per_op") for arm in ARMS]
    texts = [name]
    texts += [shown(t and t / 1000, ",.0f") for t in us]
    texts.append(f"{statistics.median(of_c):.2f} ({of_c[0]:.2f}-{of_c[-1]:.2f})" if of_c else "-")
    texts.append(shown(statistics.median(of_tcp) if of_tcp else None, ".2f"))
    for key, form in (("p50_us", ",.0f"), ("p99_us", ",.0f"), ("switches_per_op", ".1f")):
        texts.append(" / ".join(shown(median(case, arm, key), form) for arm in MAIN))
    texts.append(" / ".join(shown(t and t / NS_PER_INSTRUCTION / 1000, ",.0f") for t in us[: len(MAIN)]))
    per_byte = [m["ns"] / NS_PER_INSTRUCTION / m["bytes"] if m["bytes"] else None for m in case["rust"].values()]
    texts.append(shown(statistics.median(per_byte) if per_byte and None not in per_byte else None, ".1f"))
    return texts


HEAD = [
    "case",
    "C, us/op",
    "Rust",
    "TCP",
    "Rust, 8136",
    "NFS/RDMA",
    "speed against C (spread)",
    "against TCP",
    "p50, us: C / Rust / TCP",
    "p99",
    "context switches per op",
    "1,000 instructions per op",
    "per byte (Rust)",
]


def text_table(rows):
    """For a terminal, which is also a simple table of reStructuredText."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * w for w in widths)
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(r, widths)).rstrip() for r in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def counters(cases):
    """Our own counters per operation, for the cases that have them."""
    lines = []
    for name, case in cases.items():
        if case["rust"]:
            first = case["rust"][min(case["rust"])]
            text = ", ".join(f"{k} {v:g}" for k, v in first["counters_per_op"].items())
            lines.append(f"  {name}:\n" + textwrap.fill(text, 118, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)


def text_json(cases):
    """A line for each measurement."""
    entry = json.JSONEncoder(sort_keys=True).encode
    arms = {
        name: ",\n".join(
            f' "{arm}": {{\n' + ",\n".join(f'  "{pair}": {entry(m)}' for pair, m in sorted(pairs.items())) + "\n }"
            for arm, pairs in case.items()
            if pairs
        )
        for name, case in cases.items()
    }
    return "{\n" + ",\n".join(f'"{name}": {{\n{text}\n}}' for name, text in arms.items()) + "\n}\n"


def plot(cases, folder):
    """A bar for each case: our speed against C's and TCP's."""
    data = folder / "bench.dat"
    with data.open("w") as file:
        for name, case in cases.items():
            values = [statistics.median(r) if (r := ratios(case, "rust", to)) else "?" for to in ("c", "tcp")]
            print(f'"{name}"', *values, sep="\t", file=file)
    script = f"""
        set terminal svg size 1200,460 dynamic background rgb "white"
        set output "{folder}/bench.svg"
        set datafile missing "?"
        set style data histograms
        set style fill solid 0.8
        set xtics rotate by -45
        set grid y
        set ylabel "speed of our module, other = 1"
        set arrow from graph 0, first 1 to graph 1, first 1 nohead
        set key top left
        plot "{data}" using 2:xtic(1) title "against the C module", "" using 3 title "against TCP"
    """
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
    data.unlink()


PAGE = """.. SPDX-License-Identifier: GPL-2.0
.. Made by ``make bench``; do not edit.

=====================
Results of make bench
=====================

Kernel {kernel}, our module of commit {commit}, {pairs} pairs, each case whole in one guest. The modules take turns,
in the other order each time; cifs and ksmbd are the same. The clock of the guest goes on by 2 ns with each
instruction (QEMU ``-icount shift=1,sleep=off``), so times are instructions and do not depend on the machine that emulates.

.. figure:: bench.svg

   Median of the pairs; above 1 our module is faster.

{table}

The floor: raw verbs on the same device, by perftest, between two processes of one guest that sleep for completions.

{floor}

What our module counted, per operation, both ends together::

{counters}
"""


def main():
    run, kernel, commit = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    cases, floor = load(run), text_table(verbs(run))
    if not cases and floor.count("\n") == 3:
        sys.exit("no case has this name")
    table = text_table([HEAD] + [row(name, case) for name, case in cases.items()])
    print(table + "\n\n" + floor)
    if len(sys.argv) > 4:
        folder = pathlib.Path(sys.argv[4])
        pairs = max(len(case["rust"]) for case in cases.values())
        page = PAGE.format(kernel=kernel, commit=commit, pairs=pairs, table=table, floor=floor, counters=counters(cases))
        (folder / "bench.rst").write_text(page)
        (folder / "bench.json").write_text(text_json(cases))
        plot(cases, folder)
    else:
        print("\n" + counters(cases))


main()
