# SPDX-License-Identifier: GPL-2.0
#
# The front end for people; "make help" tells what there is.  All work is done by scripts/, and
# the module itself is built by the kernel's kbuild from Kbuild.

SHELL := /bin/bash
export PROFILE KVER KDIR TRANSPORT MIRROR ACCEL SMBD_CACHE JOBS T MODULE SANITIZER UPDATE CC LLVM INSTALL_MOD_PATH
# Not the make program's own default of "cc".
ifeq ($(origin CC),default)
unexport CC
endif
ifeq ($(JOBS),)
unexport JOBS
endif
# The scripts call make on their own terms.
unexport MAKEFLAGS MFLAGS MAKELEVEL

.PHONY: help all modules modules_install clean demo shell test test-long test-debug soak bench check fuzz fuzz-min mutants fault-table root kernel peers cache-clean
.NOTPARALLEL:

all: modules

help:
	@scripts/help.sh

modules:
	@scripts/modules.sh modules

modules_install:
	@scripts/modules.sh modules_install

clean:
	@scripts/modules.sh clean

demo:
	@scripts/demo.sh

shell:
	@scripts/shell.sh

test:
	@scripts/test.sh

test-long:
	@SMBD_LONG=1 scripts/test.sh

test-debug:
	@SANITIZER="$${SANITIZER:-kasan}" scripts/test.sh

soak:
	@scripts/soak.sh '$(HOURS)' '$(SEED)'

bench:
	@scripts/bench.sh '$(CASE)' '$(PAIRS)'

fault-table:
	@scripts/fault-table.sh '$(RUNS)' '$(T)'

check:
	@scripts/check.sh

# By argument: SECONDS in the environment is bash's own clock.
fuzz fuzz-min:
	@scripts/fuzz.sh $@ '$(TARGET)' '$(SECONDS)'

mutants:
	@scripts/mutants.sh $(MODULE)

root kernel peers:
	@scripts/$@.sh

cache-clean:
	@scripts/cache-clean.sh
