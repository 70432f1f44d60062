# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every host-side script shares: the user's settings with their defaults, steps with a
# name and a time, clear errors, and the cache protocol.  Sourced, never run.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
: "${SMBD_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/smbdirect-rs}"
: "${SMBD_SUITE:=trixie}" "${KVER:=}" "${TRANSPORT:=rust}" "${ACCEL:=tcg}"
: "${JOBS:=$(nproc)}" "${MIRROR:=}" "${KDIR:=}" "${SANITIZER:=}"
# How much longer all takes in a guest whose kernel has sanitizers.
# shellcheck disable=SC2034 # read by guest.sh and soak.sh
SLOW=$((${#SANITIZER} ? 5 : 1))
mkdir -p "$SMBD_CACHE/logs" "$SMBD_CACHE/locks" "$SMBD_CACHE/home" 2>/dev/null || {
	echo "error: cannot write to the cache folder $SMBD_CACHE; set SMBD_CACHE= to a folder you own" >&2
	exit 1
}
SMBD_CACHE=$(cd "$SMBD_CACHE" && pwd -P)
export TOP SMBD_CACHE SMBD_SUITE KVER TRANSPORT ACCEL JOBS MIRROR KDIR SANITIZER

SUDO=
[ "$(id -u)" -eq 0 ] || SUDO=sudo

# die <sentence> [log]: the one way to fail.  Inside a step the sentence becomes the step's reason.
die() {
	[ -z "${STEP_LOG:-}" ] || printf 'error: %s\n' "$1" >"$STEP_LOG.why"
	printf 'error: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf '  log: %s\n' "$2" >&2
	exit 1
}

say() { printf '%s\n' "$*" >&2; }

# kill_tree <pid>: a process and all below it.
kill_tree() {
	local child
	# shellcheck disable=SC2013 # words it is
	for child in $(cat "/proc/$1/task"/*/children 2>/dev/null); do kill_tree "$child"; done
	# What sudo started is root's.
	kill "$1" 2>/dev/null || $SUDO kill "$1" 2>/dev/null || true
}

# What a script left running in the background would ignore Ctrl-C and hold its locks.
stop() {
	local job
	trap - INT TERM
	for job in $(jobs -p); do kill_tree "$job"; done
	exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

# dots <pid>: one dot every five seconds for as long as <pid> lives.
dots() {
	local last=$SECONDS
	while kill -0 "$1" 2>/dev/null; do
		sleep 0.2
		[ $((SECONDS - last)) -ge 5 ] || continue
		printf '.' >&2
		last=$SECONDS
	done
}

# step <name> <command...>: run with all output in a log; print name, dots and time.
# The command is a program or a shell function; it runs in a subshell of its own.
step() {
	local name=$1 log start rc=0 pid
	shift
	log=$(mktemp "$SMBD_CACHE/logs/$(date +%m%d-%H%M%S)-${name//[^a-zA-Z0-9.]/_}.XXXX.log")
	start=$SECONDS
	printf '  %s ' "$name" >&2
	(export STEP_LOG=$log; set -e; "$@") >"$log" 2>&1 </dev/null &
	pid=$!
	dots "$pid"
	wait "$pid" || rc=$?
	if [ "$rc" -ne 0 ]; then
		printf 'FAILED\n' >&2
		cat "$log.why" >&2 2>/dev/null || printf 'error: the step "%s" failed (exit %d)\n' "$name" "$rc" >&2
		printf '  log: %s\n' "$log" >&2
		return "$rc"
	fi
	printf '(%d s)\n' $((SECONDS - start)) >&2
}

# hash_of <file or text...>: a short key of contents; names of files count only by content.
hash_of() {
	local x
	for x in "$@"; do
		if [ -f "$x" ]; then cat "$x"; else printf '%s\n' "$x"; fi
	done | sha256sum | cut -c1-10
}

# cached <dir> <function> [args...]: make <dir> by "function dir args" unless it is complete.
# A folder counts only once its stamp exists, so an interrupted run leaves nothing that is
# trusted; the lock makes a second run wait for the first and then find the result.
cached() {
	local dir=$1 fn=$2 fd
	shift 2
	[ ! -e "$dir/.complete" ] || return 0
	exec {fd}>"$SMBD_CACHE/locks/$(basename "$dir").lock"
	if ! flock -n "$fd"; then
		say "  waiting for another run that is making $(basename "$dir")"
		flock "$fd"
	fi
	if [ ! -e "$dir/.complete" ]; then
		$SUDO rm -rf --one-file-system "$dir"
		mkdir -p "$dir"
		"$fn" "$dir" "$@" # no "||": that would switch set -e off inside
		$SUDO touch "$dir/.complete"
	fi
	exec {fd}>&-
}

# need_room <MiB>: refuse before a long download rather than in the middle of it.
need_room() {
	local free
	free=$(df -Pm "$SMBD_CACHE" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$1" ] || die "no room on disk: $SMBD_CACHE has $free MiB free and this step needs $1 MiB; free some, or set SMBD_CACHE= to another disk"
}
