# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2086
#
# The cases of "make bench". Sourced by guest.sh. Work is fixed, not time: the same requests for all.

# Raw verbs: name, program of perftest, bytes, iterations. RDMA WRITE is not among them, as its programs cannot
# sleep for completions; nor is iWARP, where they cannot sleep while they get to know each other.
# shellcheck disable=SC2034 # read by guest.sh
VERBS=(
	"send-256 ib_send_lat 256 500"
	"send-4k ib_send_lat 4096 500"
	"read-4k ib_read_lat 4096 500"
	"read-1m ib_read_bw 1048576 20"
	"send-1m ib_send_bw 1048576 20"
	"send-1364-stream ib_send_bw 1364 3000"
)

# sets_of <topology>: A is rxe, E rxe whose transfers all need registrations, C siw.
sets_of() {
	case $1 in
	A) echo verbs-rxe rxe rxe-sign rxe-seal rxe-3.0 rxe-channels ;;
	E) echo rxe-mr ;;
	C) echo siw ;;
	esac
}

# options_of <set>: how it is mounted.
options_of() {
	case $1 in
	*-sign) echo vers=3.1.1,sign ;;
	# See tests/selftests/groups.sh for the sizes.
	*-seal) echo vers=3.1.1,seal,rsize=131072,wsize=131072 ;;
	*-3.0) echo vers=3.0 ;;
	*-channels) echo vers=3.1.1,multichannel,max_channels=4 ;;
	*) echo vers=3.1.1 ;;
	esac
}

# has <arm> <set>: what TCP does is the same on all devices, of NFS one mount is enough, and larger messages matter where
# data travels in messages.
has() {
	case $1 in
	larger) [[ $2 == *-sign || $2 == *-seal ]] ;;
	tcp) [[ $2 == rxe* && $2 != rxe-mr ]] ;;
	nfs) [ "$2" = rxe ] ;;
	esac
}

cases_of() {
	case $1 in
	verbs-*) printf '%s\n' "${VERBS[@]%% *}" ;;
	rxe) echo read-4k-1 write-4k-1 read-4k-8 write-4k-8 read-4k-32 write-4k-32 read-64k write-64k read-1m write-1m \
		read-4m write-4m read-1m-4 files unlink ;;
	rxe-sign | rxe-seal) echo read-4k-1 write-4k-1 read-1m write-1m ;;
	rxe-channels) echo read-4k-32 read-1m-4 write-1m-4 ;;
	*) echo read-4k-1 write-4k-1 read-4k-8 read-1m write-1m ;;
	esac
}

case_read-4k-1() { job randread 4k 1 500; }
case_write-4k-1() { job randwrite 4k 1 500; }
case_read-4k-8() { job randread 4k 8 100; }
case_write-4k-8() { job randwrite 4k 8 100; }
case_read-4k-32() { job randread 4k 32 30; }
case_write-4k-32() { job randwrite 4k 32 30; }
case_read-64k() { job read 64k 1 100; }
case_write-64k() { job write 64k 1 100; }
case_read-1m() { job read 1m 1 8; }
case_write-1m() { job write 1m 1 8; }
case_read-4m() { job read 4m 1 3; }
case_write-4m() { job write 4m 1 3; }
case_read-1m-4() { job read 1m 4 3; }
case_write-1m-4() { job write 1m 4 3; }
# Few enough to be done before cifs begins to close them, a second after their use: each close waits 40 ms for a timer,
# with any transport.
case_files() { try 3000 python3 "$here/files.py" make $MNT/files 100 /tmp/result.json; }
# So does each removal; the rest of the files goes another way.
case_unlink() { try 3000 python3 "$here/files.py" unlink $MNT/files 10 /tmp/result.json && rm -r $SHARE/files; }
