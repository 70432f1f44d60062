#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
set -euo pipefail
cat <<'HELP'
smbdirect-rs: SMB Direct (SMB3 over RDMA) as a Linux kernel module in Rust.

Targets
  demo             from nothing to a file system over our module at both ends, in a virtual
                   machine with a stock Debian kernel; ends in "demo: PASS"
  test             every test; T=pattern runs a subset; ends in "N passed, N failed, N skipped"
  test-long        the same, with the explorer and the properties of the core at full length (hours)
  test-debug       the guest tests on a kernel with KASAN, lockdep and more, which it builds first
  soak             mixed load with faults for HOURS; ends in a report with a plot
  bench            our module, the C module and TCP by turns, counted in instructions; CASE= for one case
  fault-table      every fault with the C module and ours by turns; writes the table in Documentation/ (hours)
  check            format, lints, layering, documentation, script and C style
  fuzz             run one fuzz target of the protocol core, from the committed corpus on
  fuzz-min         make that corpus the least that reaches all that was reached
  mutants          change the protocol core bit by bit: do its tests notice?  takes hours
  shell            an interactive guest with the share mounted on /mnt/a
  modules          build smbdirect.ko (the default target)
  modules_install  install it for the kernel of KDIR (needs root), under updates/
  clean            remove what the build left in this folder
  root kernel peers  make one stage of the cache and print its folder
  cache-clean      remove the cached stages that this clone does not use now, but no kernel with sanitizers

Variables
  KVER=7.2         kernel series of the guest; default: the newest that Debian's backports carry
  KDIR=folder      build against this prepared kernel tree instead of the cached one, with the
                   host's own tools; it needs CONFIG_RUST and release 7.2 or later
  TRANSPORT=c      demo, shell: run the kernel's own C module instead of ours, as control
  TOPOLOGY=C       shell: another topology than A (Documentation/testing.rst has them)
  T=pattern        test: only tests whose name matches this shell pattern, e.g. T='guest/*/sizes*'
  TARGET=name      fuzz, fuzz-min: pdu, receiver, negotiate, descriptor, depth or connection
  SECONDS=n        fuzz: for so long; default: 60
  HOURS=n SEED=n   soak: for so long (1.5 will do), with this schedule; default seed: 1
  CASE=set/case    bench: only cases whose name matches this pattern, e.g. CASE=rxe/read-4k-1; CASE=scale is the curves
  PAIRS=n          bench: so many turns of each; default 5
  PROFILE=1        bench: beside each measurement a profile by task and function, in the run's folder
  RUNS=n           fault-table: each fault so often; default 3; T= picks faults by name
  MODULE=name      mutants: only this module of rust/proto, e.g. MODULE=credits
  SANITIZER=kcsan  test-debug: look for data races instead (kasan is the default)
  UPDATE=1         ask the package archive for a newer kernel instead of using the cached one
  MIRROR=url       Debian package mirror; default: the one the host's apt uses
  ACCEL=kvm        QEMU accelerator; default tcg, which works everywhere
  SMBD_CACHE=folder  where root, kernels and results live; default: the user's cache folder
  CC=, LLVM=1      with KDIR: the compiler that kernel was built with, where it is not the default
  INSTALL_MOD_PATH=folder  modules_install: put the tree there instead of /
  JOBS=n           parallel compiler jobs; default: all cores

A real machine: make modules KDIR=/lib/modules/$(uname -r)/build; sudo make modules_install KDIR=...;
sudo modprobe smbdirect; sudo mount -t cifs //server/share /mnt -o rdma,...   See README.md.
HELP
