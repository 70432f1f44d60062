#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The part of guest.sh that runs inside the build root: file servers and emulator.
#	guest-inside.sh run-folder bound interactive [qemu options...]

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
run=$1 bound=$2 interactive=$3
shift 3
# shellcheck source=/dev/null
. "$run/env"

# An accelerator that is asked for must be there; the emulator's own message would not say how.
check_accel() {
	qemu-system-x86_64 -accel help | grep -qx "${ACCEL%%,*}" ||
		die "this QEMU has no accelerator '${ACCEL%%,*}'; ACCEL=tcg always works"
	[ "${ACCEL%%,*}" != kvm ] || [ -w /dev/kvm ] ||
		die "ACCEL=kvm was asked for, but /dev/kvm is missing or not writable; ACCEL=tcg always works"
}

# share <name> <folder> <virtiofsd options...>: serve a folder to the guest.
share() {
	local sock=$tmp/$1.sock dir=$2
	shift 2
	/usr/libexec/virtiofsd --socket-path="$sock" --shared-dir="$dir" --sandbox=none "$@" \
		>>"$run/virtiofsd.log" 2>&1 &
	pids+=($!)
	for _ in {1..100}; do
		[ ! -S "$sock" ] || return 0
		sleep 0.05
	done
	die "virtiofsd did not start" "$run/virtiofsd.log"
}

cleanup() {
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	rm -rf "$tmp"
}

check_accel
pids=()
tmp=$(mktemp -d /tmp/smbd.XXXXXX) # a socket's path must be short
trap cleanup EXIT
share root / --readonly --cache=always
share run "$run" --cache=never

# The guest covers some folders with its own; what we need of them is mounted over those again.
covered='' covered_devices=()
for dir in "$TOP" "$SMBD_CACHE"; do
	case $dir/ in
	/tmp/* | /run/* | /mnt/* | /srv/*)
		tag=smbd${#covered_devices[@]}
		share "$tag" "$dir" --readonly --cache=always
		covered+=${covered:+,}$tag:$dir
		covered_devices+=(-chardev "socket,id=$tag,path=$tmp/$tag.sock"
			-device "vhost-user-fs-pci,chardev=$tag,tag=$tag")
		;;
	esac
done

accel=$ACCEL
[ "$ACCEL" != tcg ] || accel=tcg,thread=multi
mem=${GUEST_MEM:-3072}
console=(-serial "file:$run/console" -monitor none)
limit=(timeout --foreground -k 10 "$bound") # in our process group, to die with us
if [ "$interactive" -eq 1 ]; then
	console=(-serial mon:stdio)
	limit=()
fi
# A report of KASAN is not to hide those after it.  With five levels of page tables KASAN takes all memory for wild
# when an interrupt comes while the kernel identifies the processor.
debug=''
[ -z "$SANITIZER" ] || debug='kasan_multi_shot no5lvl'
# No IPv6: ksmbd offers an IPv6 address of every interface for further channels, even one that is
# not there, but listens for RDMA on IPv4 only; cifs then gives up before it tries the right one.
emulator=("${limit[@]}" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
	-accel "$accel" -cpu max -smp "${GUEST_CPUS:-2}" -m "$mem"
	-object "memory-backend-memfd,id=mem,size=${mem}M,share=on" -numa "node,memdev=mem"
	-chardev "socket,id=root,path=$tmp/root.sock" -device "vhost-user-fs-pci,chardev=root,tag=smbdroot"
	-chardev "socket,id=run,path=$tmp/run.sock" -device "vhost-user-fs-pci,chardev=run,tag=smbdrun"
	"${covered_devices[@]}" -device virtio-rng-pci "${console[@]}" -kernel "$KERNEL/stock/vmlinuz"
	-append "console=ttyS0 root=smbdroot rootfstype=virtiofs ro init=$TOP/scripts/guest-init.sh smbd.run=$run smbd.covered=$covered ipv6.disable=1 mitigations=off panic=-1 loglevel=5 log_buf_len=32M $debug"
	"$@")

# up <pid>: has the guest come to its job, or ended?  A boot takes ten seconds on an idle machine.
up() {
	local i
	for ((i = 0; i < BOOT_BOUND; i++)); do
		[ ! -e "$run/up" ] && kill -0 "$1" 2>/dev/null || return 0
		sleep 1
	done
	return 1
}

rc=0
if [ "$interactive" -eq 1 ]; then
	"${emulator[@]}" || true
	exit 0
fi
"${emulator[@]}" &
if ! up $!; then
	kill $!
	wait $! || true
	exit 75
fi
wait $! || rc=$?
[ -e "$run/up" ] || exit 75
if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then
	say "error: the guest did not finish within $bound s"
	exit 124
fi
if [ ! -s "$run/status" ]; then
	say "error: the guest died before its job ended (emulator status $rc); see $run/console"
	exit 125
fi
exit "$(<"$run/status")"
