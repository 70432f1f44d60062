#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The module's peers: cifs.ko, ksmbd.ko and siw.ko, unmodified but with SMB Direct switched on
# (Debian ships them without), and the kernel's own smbdirect.ko as control.  Prints the folder.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/kmake.sh
. "$TOP/scripts/kmake.sh"

ROOT=$("$TOP/scripts/root.sh")
KERNEL=$("$TOP/scripts/kernel.sh")
export ROOT
RELEASE=$(<"$KERNEL/release")

# The options are off in the tree's .config, so the C code has to be told on the command line.
FLAGS="-DCONFIG_CIFS_SMB_DIRECT=1 -DCONFIG_SMB_SERVER_SMBDIRECT=1 -DCONFIG_SMBDIRECT_MODULE=1"

# peer <dir> <folder in the kernel tree> <module> <options...>
peer() {
	local dir=$1 from=$2 ko=$3
	shift 3
	mkdir -p "$dir/work/$ko"
	kmake "$KERNEL/build" "$RELEASE" M="$from" MO="$dir/work/$ko" KCFLAGS="$FLAGS" \
		KBUILD_EXTRA_SYMBOLS="$dir/symvers" "$@" modules
	# With its debug information cifs.ko alone is 40 MB; the guest needs none of it.
	"$TOP/scripts/enter-root.sh" strip --strip-debug -o "$dir/$ko.ko" "$dir/work/$ko/$ko.ko"
}

make_peers() {
	local dir=$1
	: >"$dir/symvers"
	step "peer smbdirect (C, the control)" peer "$dir" fs/smb/smbdirect smbdirect CONFIG_SMBDIRECT=m
	cp "$dir/work/smbdirect/Module.symvers" "$dir/symvers"
	step "peer cifs" peer "$dir" fs/smb/client cifs CONFIG_CIFS=m CONFIG_CIFS_SMB_DIRECT=y
	step "peer ksmbd" peer "$dir" fs/smb/server ksmbd CONFIG_SMB_SERVER=m CONFIG_SMB_SERVER_SMBDIRECT=y
	step "peer siw" peer "$dir" drivers/infiniband/sw/siw siw CONFIG_RDMA_SIW=m
	mkdir "$dir/c"
	mv "$dir/smbdirect.ko" "$dir/c/"
	rm -rf "$dir/work"
}

# take_peers: a kernel of our own configuration has them among its modules.
take_peers() {
	local ko
	mkdir "$1/c"
	: >"$1/symvers" # in the kernel's own
	for ko in smb/client/cifs smb/server/ksmbd infiniband/sw/siw/siw smb/smbdirect/smbdirect; do
		cp "$KERNEL/stock/lib/modules/$RELEASE/kernel"/*/"$ko.ko" "$1/"
	done
	mv "$1/smbdirect.ko" "$1/c/"
}

make=make_peers
[ -z "$SANITIZER" ] || make=take_peers
key=$(hash_of "$(basename "$KERNEL")" "$FLAGS" "$(declare -f peer $make)")
dir=$SMBD_CACHE/peers/$RELEASE-$key
cached "$dir" $make
printf '%s\n' "$dir"
