#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Boot the stock kernel on the build root and run one job in it:
#	guest.sh [-i] [-t seconds] [-d run-folder] [-v VAR=value]... [-q qemu-option]... -- job [args...]
# The build root is the guest's root file system (virtiofs, read-only; the kernel has it built in,
# so there is no image and no initramfs); clone and cache keep their paths.  The run folder is the
# one thing the guest can write to.  It ends up with: console, dmesg, out (what the job printed),
# status.  Exit: the job's status; 124 when the guest did not finish in time; 125 when it died; 75 when it
# did not come up.
# -i is interactive: the console is the terminal.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

interactive=0 bound=600 run='' vars=() qemu=()
while getopts it:d:v:q: o; do
	case $o in
	i) interactive=1 ;;
	t) bound=$OPTARG ;;
	d) run=$OPTARG ;;
	v) vars+=("$OPTARG") ;;
	q) qemu+=("$OPTARG") ;;
	*) die "guest.sh: see the head of the script for its options" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || die "guest.sh: no job given"

ROOT=$("$TOP/scripts/root.sh")
KERNEL=$("$TOP/scripts/kernel.sh")
PEERS=$("$TOP/scripts/peers.sh")
export ROOT

: "${run:=$SMBD_CACHE/run/$(date +%m%d-%H%M%S)-$$}"
$SUDO rm -rf "$run"
mkdir -p "$run"

# What the job finds in its environment.
case $TRANSPORT in
c) : "${SMBDIRECT_KO:=$PEERS/c/smbdirect.ko}" ;;
rust) [ -n "${SMBDIRECT_KO:-}" ] || SMBDIRECT_KO=$("$TOP/scripts/modules.sh" build) ;;
*) die "TRANSPORT=$TRANSPORT is unknown; it is rust (our module) or c (the kernel's, as control)" ;;
esac
[ -e "$SMBDIRECT_KO" ] || die "$SMBDIRECT_KO does not exist; build it first (make modules)"
{
	printf 'export %s=%q\n' TOP "$TOP" RUN "$run" KERNEL "$KERNEL" PEERS "$PEERS" TRANSPORT "$TRANSPORT" \
		SMBDIRECT_KO "$SMBDIRECT_KO" RELEASE "$(<"$KERNEL/release")" INTERACTIVE "$interactive" \
		SLOW "$SLOW" SANITIZER "$SANITIZER" BOOT_BOUND "${BOOT_BOUND:-$((180 * SLOW))}"
	for v in "${vars[@]}"; do printf 'export %s=%q\n' "${v%%=*}" "${v#*=}"; done
} >"$run/env"
printf '%q ' "$@" >"$run/job"

start() { "$TOP/scripts/enter-root.sh" -r "$TOP/scripts/guest-inside.sh" "$run" "$bound" "$interactive" "${qemu[@]}"; }
rc=0
start || rc=$?
# On a busy host a boot now and then stands still or panics in its first moments (clock calibration, the timer
# of the IO-APIC). Nothing of ours has run by then.
if [ "$rc" -eq 75 ]; then
	say "the guest did not come up, is started once more; see $run/console.first"
	mv "$run/console" "$run/console.first"
	rc=0
	start || rc=$?
fi
[ "$rc" -ne 75 ] || say "error: the guest did not come up twice; see $run/console"
exit "$rc"
