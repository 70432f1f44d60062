#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The guest's process 1: makes the read-only root usable, runs the job, powers off.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=${TERM:-dumb} LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for d in /tmp /run /mnt /srv /etc/ksmbd /usr/lib/modules /dev/shm; do
	mount -t tmpfs -o mode=1777 tmpfs "$d"
done
mkdir -p /run/ksmbd /run/lock

# Clone and cache, where they lie in a folder that was just covered.
for pair in $(sed -n 's/.*smbd\.covered=\([^ ]*\).*/\1/p' /proc/cmdline | tr , ' '); do
	mkdir -p "${pair#*:}"
	mount -t virtiofs -o ro "${pair%%:*}" "${pair#*:}"
done

RUN=$(sed -n 's/.*smbd\.run=\([^ ]*\).*/\1/p' /proc/cmdline)
mount -t virtiofs smbdrun "$RUN"
# shellcheck source=/dev/null
. "$RUN/env"
: >"$RUN/up"
ln -s "$KERNEL/stock/lib/modules/$RELEASE" "/usr/lib/modules/$RELEASE"
ip link set lo up
hostname "${GUEST_NAME:-guest}"

if [ "$INTERACTIVE" = 1 ]; then
	setsid -c bash -c "$(<"$RUN/job")"
	rc=$?
else
	bash -c "$(<"$RUN/job")" >"$RUN/out" 2>&1 </dev/null
	rc=$?
fi
dmesg >"$RUN/dmesg"
echo "$rc" >"$RUN/status"
echo "guest: job ended with $rc" >/dev/ttyS0
sync
echo o >/proc/sysrq-trigger
sleep 60
