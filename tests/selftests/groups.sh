# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The tests, by group; one guest boot runs one group.  A cell is one mount with its options; its
# name is the first part of the names of its checks.  Sourced by run.sh and, to list the names, by
# the host.
#	cell <name> <topology> <dialect> <mount options> <checks...>
#	rounds <n>	load, mount, I/O, unmount, unload, n times
#	other <name>	a test of its own, test_<name>

# cifs computes the write size of a sealed mount without the room for the encryption header, and
# then refuses its own request (seen with the C module as well); so these mounts set their sizes.
SEAL=seal,rsize=131072,wsize=131072

group_A() {
	cell 3.1.1 A 3.1.1 "" rdma listing sizes tree fio shown thrifty
	cell 3.0.2 A 3.0.2 "" rdma sizes
	cell 3.0 A 3.0 "" rdma sizes fio invalidates
	cell 3.1.1-sign A 3.1.1 sign rdma signed sizes fio frugal
	cell 3.1.1-sign-larger A 3.1.1 sign rdma signed sizes fio larger
	cell 3.1.1-seal A 3.1.1 "$SEAL" rdma sealed sizes fio
	cell 3.0-seal A 3.0 "$SEAL" rdma sealed sizes
	cell 3.0-sign A 3.0 sign rdma signed sizes
	cell 3.1.1-channels A 3.1.1 multichannel,max_channels=2 rdma channels sizes fio
}

group_B() {
	cell 3.1.1 B 3.1.1 "" rdma sizes tree fio
	cell 3.0-seal B 3.0 "$SEAL" rdma sealed sizes
	cell 3.0.2-sign B 3.0.2 sign rdma signed sizes
}

group_C() {
	cell 3.1.1 C 3.1.1 "" rdma listing sizes tree fio shown
	cell 3.0 C 3.0 "" rdma sizes
	cell 3.1.1-seal C 3.1.1 "$SEAL" rdma sealed sizes
	cell 3.0.2-channels C 3.0.2 multichannel,max_channels=2 rdma channels sizes
	other wire
}

group_E() {
	cell 3.1.1 E 3.1.1 "" rdma sizes tree fio
	cell 3.0 E 3.0 "" rdma sizes
	cell 3.0.2-sign E 3.0.2 sign rdma signed sizes
	cell 3.1.1-channels E 3.1.1 multichannel,max_channels=2 rdma channels sizes
}

# Loading and unloading: the module that is in the way is named; a device that goes and comes back;
# rounds of everything, twenty or, in make test-long, 500.
group_modules() {
	other already-loaded
	other device
	other in-use
	other kinds
	other vectors
	other parameters
	if [ -n "$LONG" ]; then rounds 500; else rounds 20; fi
}

# Errors that help (errors.sh).
group_errors() {
	local e
	for e in no-device no-host refused firewall negotiation none; do
		other error-$e
	done
	[ -z "$LONG" ] || other error-mute
}

# Faults under load, which a hard mount survives (faults.sh).
group_faults() {
	local f
	for f in link link-long link-minutes loss loss-heavy disorder silence rdma-lost server-device client-device \
		server-stop server-killed server-module soft unmount detect; do
		other fault-$f
	done
	other channel-lost
	other channel-second
	for f in address loss loss-heavy disorder silence rdma-lost server-stop server-killed; do
		other siw-fault-$f
	done
}

# Faults between two guests, of which the server's (group_far_server) does what it is told; over rxe and siw.
group_far_client() {
	local f
	for f in link silence loss rdma-lost server-device server-stop server-killed server-module; do
		other far-$f
	done
	for f in link silence loss rdma-lost server-stop server-killed server-module; do
		other far-siw-$f
	done
}

group_far_server() {
	other obey
}

# The short form of the two groups around.
group_short() {
	other fault-link
	other fault-soft
	other fault-unmount
	other fault-detect
	other crowd
}

# A server with many clients; memory that is short.
group_load() {
	other pressure
	other crowd
}

# Suites of others.
group_suites() {
	local s
	for s in fsx dbench fs-mark stress; do
		other suite-$s
	done
}

# What a second kernel series has to show.
group_smoke() {
	cell 3.1.1 A 3.1.1 "" rdma sizes tree fio
	cell 3.0-seal A 3.0 "$SEAL" rdma sealed sizes
	cell siw C 3.1.1 "" rdma sizes
	rounds 3
}

# Two guests, of which the server's loses its power.
group_power_client() {
	other power
}

group_power_server() {
	other power-serve
}

# Two guests: the client's half and the server's.
group_client() {
	cell 3.1.1-sign-larger D 3.1.1 sign rdma signed sizes
	cell 3.1.1 D 3.1.1 "" rdma sizes tree fio over
}

group_server() {
	other serve
}
