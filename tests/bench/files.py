#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Small files: create, stat and read <count> of them in <folder>, or remove them: files.py make|unlink <folder> <count> <result>
The result is a JSON object: how many, and the seconds of each kind of work."""

import json
import os
import sys
import time

CONTENTS = b"smbd" * 256


def create(name):
    with open(name, "wb", buffering=0) as file:
        file.write(CONTENTS)


def read(name):
    with open(name, "rb", buffering=0) as file:
        if file.read() != CONTENTS:
            sys.exit(f"{name} reads back different")


def main():
    what, folder, count, result = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    names = [f"{folder}/{i}" for i in range(count)]
    if what == "make":
        os.mkdir(folder)
    seconds = {}
    for work in (create, os.stat, read) if what == "make" else (os.unlink,):
        start = time.monotonic_ns()
        for name in names:
            work(name)
        seconds[work.__name__] = (time.monotonic_ns() - start) / 1e9
    with open(result, "w", encoding="ascii") as file:
        json.dump({"files": count, "seconds": seconds}, file)


main()
