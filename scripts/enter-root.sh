#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Run a command inside the build root, in the current folder, as the calling user:
#	enter-root.sh [-r] [VAR=value...] command...
# The clone, the cache and KDIR appear at the same paths as outside, so paths in logs, compiler
# messages and dependency files mean the same on both sides.  -r runs it as root of the tree.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

ids=$(id -u):$(id -g)
if [ "${1:-}" = -r ]; then
	ids=0:0
	shift
fi
: "${ROOT:=$("$TOP/scripts/root.sh")}"

binds=("$TOP" "$SMBD_CACHE")
[ -z "$KDIR" ] || [ ! -d "$KDIR" ] || binds+=("$(cd "$KDIR" && pwd -P)")
env=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$SMBD_CACHE/home" LANG=C.UTF-8
	DEBIAN_FRONTEND=noninteractive TERM="${TERM:-dumb}")
for v in http_proxy https_proxy no_proxy TOP SMBD_CACHE KDIR KVER TRANSPORT ACCEL JOBS; do
	[ -z "${!v:-}" ] || env+=("$v=${!v}")
done

# The mounts live in a namespace of their own and vanish with the command.
# shellcheck disable=SC2016 # expanded by the inner shell
exec $SUDO unshare -m bash -c '
	set -eu
	fs=$1 ids=$2 cwd=$3 n=$4
	shift 4
	while [ "$n" -gt 0 ]; do
		mkdir -p "$fs$1"
		mountpoint -q "$fs$1" || mount --bind "$1" "$fs$1"
		shift
		n=$((n - 1))
	done
	mount -t proc proc "$fs/proc"
	mount --rbind /dev "$fs/dev"
	mount --rbind /sys "$fs/sys"
	for f in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$f" ] || [ ! -e "$fs$f" ] || mount --bind "$(readlink -f "$f")" "$fs$f"
	done
	exec chroot --userspec="$ids" "$fs" /usr/bin/env -i -C "$cwd" "$@"
' _ "$ROOT/fs" "$ids" "$PWD" ${#binds[@]} "${binds[@]}" "${env[@]}" "$@"
