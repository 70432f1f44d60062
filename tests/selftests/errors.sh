# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2086
#
# Errors that help: each way in which a mount fails leaves a line in the log and a record in debugfs that
# say why and what to look at; what is no error says nothing.  Sourced by run.sh.  The control must fail
# the mounts as well; it keeps no records.

# no_mount [server]: a mount that must fail, and within its time.
no_mount() {
	local SERVER=${1:-$SERVER}
	if smb_mount; then
		smb_umount
		why "the mount succeeded"
		return 1
	fi
	[[ $WHY != *"no end within"* ]]
}

# record <destination> <pattern>: what the record of a destination says, in one line.
record() {
	[ "$TRANSPORT" = rust ] || return 0
	local text
	text=$(grep -A1 "^$1: " $DEBUG/failures | tr '\n\t' '  ')
	# shellcheck disable=SC2053 # the right side is a pattern
	[[ $text == $2 ]] || why "the record says: ${text:-nothing}"
}

# lines: error lines of ours since the mark; each names both ends.
lines() { log_since | grep -cE 'smbdirect.* to .* (ended|failed) in [A-Z_]+: .*\(-[0-9]+\)'; }

# told <n>: that many error lines.
told() { [ "$TRANSPORT" != rust ] || [ "$(lines)" -eq "$1" ] || why "$(lines) lines in the log instead of $1"; }

all_down() { unload_modules && topology_down; }

# No RDMA at all on the way.
test_error_no_device() {
	topology_up A && load_modules && server_start && try 30 rdma link delete rxe0 && no_mount &&
		record "$SERVER:445" '*RESOLVE_ADDR_RUNNING: connection manager: address not resolved (-19)*rdma link*' &&
		record "$SERVER:5445" '*RESOLVE_ADDR_RUNNING: no iWARP device*' && told 1 && take_down
}

# Nobody answers the question for the address.
test_error_no_host() {
	topology_up F && load_modules && no_mount 10.0.0.99 &&
		record 10.0.0.99:445 '*RESOLVE_ADDR_RUNNING*is the host up*' && told 2 && all_down
}

# The host is there, but no server.  Asking again and again does not fill the log; a mount that comes up
# is noted, and then the next failure is news.
test_error_refused() {
	topology_up A && load_modules || return
	no_mount && no_mount && no_mount || return
	record "$SERVER:445" '*failed 3 times*RDMA_CONNECT_RUNNING: rejected by the peer*(-111)*server running*' &&
		told 1 && server_start && smb_mount && smb_umount && server_stop &&
		record "$SERVER:445" '*connected since*' && no_mount && record "$SERVER:445" '*failed 1 times*ago *rejected by the peer*' &&
		told 2 && all_down
}

# A firewall between: the address resolves, the connection request gets no answer.
test_error_firewall() {
	topology_up F && load_modules && server_start && rdma_lost_strikes && no_mount &&
		record "$SERVER:445" '*RDMA_CONNECT_RUNNING: *(-110)*UDP 4791*' && told 1 && take_down
}

# refuser <how>: in the server's place one that takes connections and does not negotiate.
refuser() { try 60 insmod "$SMBDIRECT_TEST_KO" addr=$SERVER port=445 server="$1"; }
refuser_gone() { try 30 rmmod smbdirect_test; }

# The server answers the first message with a failure.
# rules: A2
test_error_negotiation() {
	topology_up A && load_modules && refuser refuse && no_mount &&
		record "$SERVER:445" '*NEGOTIATE_RUNNING: peer broke rule A2: *(-111)*the server refuses SMB Direct*' && told 1 &&
		refuser_gone && all_down
}

# The server says nothing. cifs gives it two minutes.
# rules: E2
test_error_mute() {
	topology_up A && load_modules && refuser mute && MOUNT_BOUND=150 no_mount &&
		record "$SERVER:445" '*NEGOTIATE_RUNNING: not up in time (-110)*does not answer as an SMB Direct server*' && told 1 &&
		refuser_gone && all_down
}

# What is no error is not told: mount, I/O, unmount, the end of the server.
test_error_none() {
	topology_up A && load_modules && server_start && random_pool && smb_mount && one_size 1048577 && smb_umount &&
		server_stop && told 0 && all_down
}
