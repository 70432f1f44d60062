#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Which test shows which rule: the tables of Documentation/traceability.rst, between its markers.

	scripts/enter-root.sh python3 scripts/traceability.py		write them anew
	scripts/enter-root.sh python3 scripts/traceability.py -c	fail if they are stale, or a rule lacks a test
"""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "Documentation/traceability.rst"
TITLES = {"pure": "Rules of the core", "guest": "Rules of the kernel part"}
complaints = []
rules = {}  # id -> (class, title)
claims = {}  # (id, "+", "-" or "" for a guest) -> tests
tests = set()


def claim(test, words, signs, where):
    for word in words.split():
        rule, sign = re.fullmatch(r"(.+?)([+-]?)", word).groups()
        if rule not in rules:
            complaints.append(f"{where}: {test} claims {rule}, which tests/rules.list does not know")
        elif (sign != "") != signs:
            complaints.append(f"{where}: {test} claims {word}, {'without' if signs else 'with'} a sign")
        else:
            claims.setdefault((rule, sign), []).append(test)


def read_rules():
    for line in (TOP / "tests/rules.list").read_text().splitlines():
        if line and not line.startswith("#"):
            rule, kind, title = line.split(None, 2)
            if rule in rules or kind not in TITLES:
                complaints.append(f"tests/rules.list: {rule} twice, or of an unknown class")
            rules[rule] = (kind, title)
    documented = re.findall(r"^([A-OQ-Z]\d+) ", (TOP / "Documentation/protocol.rst").read_text(), re.M)
    for rule in sorted(set(documented) ^ {rule for rule in rules if rule[0] not in "PX"}):
        complaints.append(f"{rule} is in one of tests/rules.list and Documentation/protocol.rst only")


def read_host(path):
    """The line "// rules: D4- D4+" stands right above #[test]; names start with rules in lower case."""
    text, where = path.read_text(), path.relative_to(TOP)
    unit = path.parent.name if path.stem == "main" else path.stem
    found = re.findall(r"(?:^\s*// rules: (.*)\n)?\s*#\[test\]\n(?:\s*#\[.*\n)*\s*fn (\w+)", text, re.M)
    for words, name in found:
        tests.add(f"{unit}/{name}")
        claim(f"{unit}/{name}", words, True, where)
        named = re.match(r"(?:[a-z]\d+_)*", name)[0].upper().split("_")[:-1]
        for rule in sorted(set(named) - set(re.findall(r"\w+", words))):
            complaints.append(f'{where}: {name} is named after {rule}; its line "// rules:" does not say so')
    if text.count("// rules:") != sum(1 for words, _ in found if words):
        complaints.append(f'{where}: a line "// rules:" that is not right above #[test]')


def read_guest(path, pattern, name):
    text, where = path.read_text(), path.relative_to(TOP)
    found = re.findall(pattern, text, re.M)
    for case, words in found:
        tests.add(name(case))
        claim(name(case), words, False, where)
    if text.count(" rules: ") != sum(1 for _, words in found if words):
        complaints.append(f'{where}: a "rules:" without a test')


def table(kind):
    title, columns = TITLES[kind], [("Kept", "+"), ("Broken", "-"), ("In a guest", "")]
    yield f"\n{title}\n{'=' * len(title)}"
    yield "\n.. list-table::\n   :header-rows: 1\n   :widths: 30 25 25 20\n"
    yield "   * - Rule\n" + "\n".join(f"     - {head}" for head, _ in columns)
    for rule in (rule for rule in rules if rules[rule][0] == kind):
        cells = [", ".join(f"``{test}``" for test in claims.get((rule, sign), [])) for _, sign in columns]
        yield f"   * - **{rule}** {rules[rule][1]}\n" + "\n".join(f"     - {cell}".rstrip() for cell in cells)


read_rules()
for path in sorted([*TOP.glob("tests/*/tests/*.rs"), *TOP.glob("tests/*/tests/*/main.rs")]):
    read_host(path)
for path in sorted(TOP.glob("tests/kmod/*.c")):
    read_guest(path, r'^\t\{ "(\w+)", \w+ \},(?: /\* rules: (.*) \*/)?$', lambda case: f"{path.stem}.{case}")
for path in sorted(TOP.glob("tests/selftests/*.sh")):
    read_guest(path, r"^# rules: (?=.*\n(\w+)\(\))(.*)$", lambda case: re.sub("^(test|check)_", "", case))
for rule in (rule for rule in rules if rules[rule][0] == "pure"):
    complaints += [f"{rule}: no host test claims {rule}{sign}" for sign in "+-" if (rule, sign) not in claims]

old = PAGE.read_text()
head, middle, tail = re.split(r"(?<=traceability-begin\n)|(?=\.\. traceability-end)", old)
new = head + "".join("\n".join(table(kind)) + "\n" for kind in TITLES) + "\n" + tail
if sys.argv[1:] == ["-c"]:
    named = set(re.findall(r"``([\w./-]+)``", middle))
    complaints += [f"{PAGE.name} names {test}, which does not exist" for test in sorted(named - tests)]
    if new != old:
        complaints.append(f"{PAGE.name} is out of date; run scripts/enter-root.sh python3 scripts/traceability.py")
else:
    PAGE.write_text(new)
print("\n".join(complaints))
sys.exit(bool(complaints))
