#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make shell": typed at by a program instead of a person.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
echo "TAP version 13"

# until_seen <seconds> <regular expression>: wait for it on the screen.
until_seen() {
	local end=$((SECONDS + $1))
	until grep -aqE "$2" "$TMP/screen"; do
		[ $SECONDS -lt $end ] || { echo "not seen: $2; screen: $(tail -n3 "$TMP/screen" | tr -cd '[:print:]')"; return 1; }
		sleep 0.2
	done
}

mkfifo "$TMP/keys"
touch "$TMP/screen"
TRANSPORT=c timeout -k 5 240 make -s -C "$TOP" shell <"$TMP/keys" >"$TMP/screen" 2>&1 &
shell=$!
exec 3>"$TMP/keys"
ok "shell/prompt" until_seen 200 'bash-[0-9.]+# '
# shellcheck disable=SC2016 # for the guest
echo 'grep -c " cifs .*rdma" /proc/mounts | sed s/^/mounted-/; pwd; echo it-is-$((6 * 7))' >&3
ok "shell/answers" until_seen 30 '^it-is-42'
ok "shell/share-is-mounted" until_seen 1 "mounted-1"
ok "shell/in-the-share" until_seen 1 '^/mnt/a'
echo 'exit' >&3
ends() { wait $shell; }
ok "shell/ends" ends
exec 3>&-
finished
