#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The curves of "make bench CASE=scale": scale.py <run> <kernel> <commit> <folder>

Prints the table and writes scale.rst, scale.json and scale.svg into the folder. A curve is what an operation costs, in us of
guest time (2 ns an instruction), against a size or a number.
"""

import collections
import json
import pathlib
import subprocess
import sys

ARMS = ("c", "rust")
# Curve: its panel's title and axes, and what makes the values of a result.
CURVES = {
    "size": ("A read of one size", "bytes", "us"),
    "readers": ("4 KiB reads, readers of one mount", "readers", "us"),
    "connections": ("4 KiB reads, a reader on each connection", "connections", "us"),
    "credits": ("A signed read of 128 KiB", "credits of the window", "us"),
    "memory": ("Memory of an idle connection, both ends", "connections", "KiB"),
    "teardown": ("An unmount, one after the other", "connections", "ms"),
}


def values(curve, result):
    """The curves a result belongs to, with its value there."""
    if curve == "idle":
        n = result["connections"]
        return {"memory": result["kib"] / n, "teardown": result["ms"] / n}
    read = result["jobs"][0]["read"]
    return {curve: read["runtime"] * 1000 / read["total_ios"]}


def load(run):
    """Curve -> x -> arm -> value."""
    curves = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in run.glob("**/bench/*.json"):
        curve, x, arm = path.stem.split(".")
        for name, value in values(curve, json.loads(path.read_text())).items():
            curves[name][int(x)][arm] = value
    return {name: dict(sorted(curves[name].items())) for name in CURVES if name in curves}


def steepness(points, arm):
    """What the cost grows by from the first point to the last, for each unit of x."""
    xs = [x for x in points if arm in points[x]]
    if len(xs) < 2:
        return None
    return (points[xs[-1]][arm] - points[xs[0]][arm]) / (xs[-1] - xs[0])


def shown(value, form):
    """A number, or a dash for a point that was not reached."""
    return "-" if value is None else format(value, form)


def table(curves):
    """Lines of the table, and of each curve whether ours is steeper."""
    rows = [["curve", "at", "C", "Rust", "unit", "Rust / C"]]
    for name, points in curves.items():
        for x, arms in points.items():
            c, rust = (arms.get(a) for a in ARMS)
            ratio = f"{rust / c:.2f}" if c and rust else ""
            rows.append([name, f"{x:,}", shown(c, ",.1f"), shown(rust, ",.1f"), CURVES[name][2], ratio])
        c, rust = (steepness(points, a) for a in ARMS)
        steeper = None not in (c, rust) and rust > max(0, c)
        rows.append([name, "slope", shown(c, ".3g"), shown(rust, ".3g"), "per unit", "steeper" if steeper else ""])
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * w for w in widths)
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(r, widths)).rstrip() for r in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def plot(curves, folder):
    """A panel for each curve."""
    panels = []
    for name, points in curves.items():
        title, x_axis, unit = CURVES[name]
        data = "\n".join(f"{x} {arms.get('c', '?')} {arms.get('rust', '?')}" for x, arms in points.items())
        y_axis = "set logscale y" if name == "size" else "unset logscale y; set yrange [0:*]"
        panels.append(f"""
            set title "{title}"
            set xlabel "{x_axis}"
            set ylabel "{unit}"
            set yrange [*:*]
            {y_axis}
            $points << END\n{data}\nEND
            plot $points using 1:2 with linespoints title "C", "" using 1:3 with linespoints title "Rust"
        """)
    script = f"""
        set terminal svg size 1200,1200 dynamic background rgb "white"
        set output "{folder}/scale.svg"
        set multiplot layout 3,2
        set logscale x 2
        set grid
        set datafile missing "?"
        set key top left
        {"".join(panels)}
    """
    subprocess.run(["gnuplot"], input="\n".join(line.strip() for line in script.splitlines()) + "\n", text=True, check=True)


PAGE = """.. SPDX-License-Identifier: GPL-2.0
.. Made by ``make bench CASE=scale``; do not edit.

====================
Curves of make bench
====================

Kernel {kernel}, our module of commit {commit}; one guest with both ends over rxe, one run; times are counted instructions, 2 ns each.

.. figure:: scale.svg

{table}

A dash: the curve had ended before, with a point that failed.
"""


def main():
    run, kernel, commit, folder = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    curves = load(run)
    text = table(curves)
    print(text)
    (folder / "scale.rst").write_text(PAGE.format(kernel=kernel, commit=commit, table=text))
    (folder / "scale.json").write_text(json.dumps(curves, indent=1) + "\n")
    plot(curves, folder)


main()
