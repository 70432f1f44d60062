#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Small files: create, stat, read and unlink <count> of them in <folder>:  files.py <folder> <count> <result>
The result is a JSON object: seconds of each."""

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
    folder, count, result = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.mkdir(folder)
    names = [f"{folder}/{i}" for i in range(count)]
    seconds = {}
    for work in create, os.stat, read, os.unlink:
        start = time.monotonic_ns()
        for name in names:
            work(name)
        seconds[work.__name__] = (time.monotonic_ns() - start) / 1e9
    os.rmdir(folder)
    with open(result, "w", encoding="ascii") as file:
        json.dump({"files": count, "seconds": seconds}, file)


main()
