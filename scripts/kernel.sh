#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A prepared kernel tree for one release of Debian's backported kernels, and the stock image
# and modules of the same release.  Prints the folder:
#	build/		linux-source with Rust support made: what KDIR= points at
#	stock/		vmlinuz and lib/modules of the stock packages
#	release		the release's name
# KVER=7.2 picks a series; without it the newest that the archive carries.  SANITIZER=kasan or kcsan
# makes a kernel with that instrumentation from the same source; it stands in for the stock one.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/kmake.sh
. "$TOP/scripts/kmake.sh"

case "$KVER" in
'' | 7.[2-9] | 7.[1-9][0-9] | [89].*) ;;
*) die "KVER=$KVER is too old: SMB Direct as a module of its own needs kernel 7.2 or later" ;;
esac

case "$SANITIZER" in
'' | kasan | kcsan) ;;
*) die "SANITIZER=$SANITIZER is unknown; it is kasan or kcsan" ;;
esac

ROOT=$("$TOP/scripts/root.sh")
export ROOT
in_root() { "$TOP/scripts/enter-root.sh" "$@"; }

# Releases already prepared are used without asking the archive; UPDATE=1 asks again.
series=${KVER:-newest}
known=$SMBD_CACHE/kernel/series-$series

# update_lists: apt's lists inside the root; a new root has none.
update_lists() {
	in_root -r apt-get -o Acquire::Retries=3 -o APT::Update::Error-Mode=any update ||
		die "no network: the package mirror does not answer; check the connection, or set MIRROR="
}

# discover: "<series> <release>" of the newest kernel there is whose packages are all there.
discover() {
	local candidates s rel
	update_lists
	candidates=${KVER:-$(in_root apt-cache pkgnames linux-source- | sed -n 's/^linux-source-\([0-9.]*\)$/\1/p' | sort -Vr)}
	for s in $candidates; do
		[ "$(printf '%s\n' 7.2 "$s" | sort -V | head -n1)" = 7.2 ] || continue
		rel=$(release_of "$s")
		[ -n "$rel" ] || continue
		mkdir -p "$SMBD_CACHE/kernel"
		echo "$s $rel" >"$known.$$"
		mv "$known.$$" "$known"
		return
	done
	die "the package archive carries no kernel ${KVER:-7.2 or later} with source, headers and image of one release"
}

# release_of <series>: the release of linux-source-<series> if its other packages are there too.
release_of() {
	local version rel
	version=$(in_root apt-cache show --no-all-versions "linux-source-$1" 2>/dev/null | sed -n 's/^Version: //p')
	[ -n "$version" ] || return 0
	rel=$(in_root apt-cache pkgnames "linux-headers-${version%%-*}+" | sed -n 's/^linux-headers-\(.*-amd64\)$/\1/p' |
		grep -v -e cloud -e rt | head -n1)
	[ -n "$rel" ] || return 0
	for p in linux-base linux-binary linux-modules; do
		[ "$(in_root apt-cache show "$p-$rel" 2>/dev/null | sed -n 's/^Version: //p' | head -n1)" = "$version" ] || return 0
	done
	printf '%s\n' "$rel"
}

# fetch <dir>: download and unpack the packages.
fetch() {
	local dir=$1
	mkdir -p "$dir/pkgs" "$dir/x"
	update_lists
	(cd "$dir/pkgs" && in_root -r apt-get -q -o Acquire::Retries=3 -o APT::Sandbox::User=root download "linux-source-$SERIES" \
		"linux-headers-$RELEASE" "linux-base-$RELEASE" "linux-binary-$RELEASE" "linux-modules-$RELEASE") ||
		die "the kernel packages of $RELEASE could not be downloaded; the archive may hold a newer release by now (UPDATE=1 looks), or the connection broke"
	for deb in "$dir"/pkgs/*.deb; do
		in_root dpkg-deb -x "$deb" "$dir/x"
	done
}

# unpack <dir>: stock image and modules in place, source unpacked.
unpack() {
	local dir=$1
	mkdir -p "$dir/stock/lib"
	mv "$dir/x/usr/lib/modules" "$dir/stock/lib/modules"
	mv "$dir/stock/lib/modules/$RELEASE/vmlinuz" "$dir/stock/vmlinuz"
	in_root tar -xf "$dir/x/usr/src/linux-source-$SERIES.tar.xz" -C "$dir"
	mv "$dir/linux-source-$SERIES" "$dir/build"
	cp "$dir/x/usr/src/linux-headers-$RELEASE/.config" "$dir/x/usr/src/linux-headers-$RELEASE/Module.symvers" "$dir/build/"
	in_root depmod -b "$dir/stock" -m /lib/modules "$RELEASE"
	rm -rf "$dir/pkgs" "$dir/x"
}

# prepare <dir>: what the headers package lacks, the Rust support tree foremost.
prepare() {
	kmake "$1/build" "$RELEASE" -s olddefconfig modules_prepare
	grep -q '^CONFIG_RUST=y' "$1/build/include/config/auto.conf" || die "the prepared kernel $RELEASE has no Rust support; is the toolchain of the build root complete?"
	printf '%s\n' "$RELEASE" >"$1/release"
}

make_kernel() {
	need_room 6000
	step "fetch kernel $RELEASE" fetch "$1"
	step "unpack kernel $RELEASE" unpack "$1"
	step "prepare kernel $RELEASE (Rust support)" prepare "$1"
}

# copy_source <dir> <stock tree>: the same source without what was made in it.
copy_source() {
	in_root rsync -a --exclude='*.o' --exclude='*.rmeta' --exclude='*.so' "$2/build/" "$1/build/"
	kmake "$1/build" "$RELEASE" -s mrproper
}

# configure <dir>: only what the guest needs, and the instrumentation.
configure() {
	local config=("$TOP"/scripts/config/{guest,"$SANITIZER"}.config) line
	kmake "$1/build" "$RELEASE" -s allnoconfig
	(cd "$1/build" && in_root scripts/kconfig/merge_config.sh -m .config "${config[@]}")
	kmake "$1/build" "$RELEASE" -s olddefconfig
	# shellcheck disable=SC2013 # words they are
	for line in $(grep -h '^CONFIG' "${config[@]}"); do
		grep -qxF "$line" "$1/build/.config" || die "the kernel's configuration did not take $line; is the toolchain of the build root complete?"
	done
}

# build <dir>: image and modules, where the stock kernel has its own.
build() {
	kmake "$1/build" "$RELEASE" bzImage modules || die "the kernel $RELEASE does not build with $SANITIZER" "$STEP_LOG"
	kmake "$1/build" "$RELEASE" -s INSTALL_MOD_PATH="$1/stock" INSTALL_MOD_STRIP=1 modules_install
	cp "$1/build/arch/x86/boot/bzImage" "$1/stock/vmlinuz"
	printf '%s\n' "$RELEASE" >"$1/release"
}

make_sanitizer_kernel() {
	need_room 12000
	step "source of kernel $RELEASE" copy_source "$1" "$2"
	step "configure it for $SANITIZER" configure "$1"
	step "build it (this takes half an hour or more)" build "$1"
}

if [ ! -s "$known" ] || [ -n "${UPDATE:-}" ]; then
	step "find the ${KVER:-newest} kernel" discover
fi
read -r SERIES RELEASE <"$known"
key=$(hash_of "$ROOT/toolchain" "$(declare -f fetch unpack prepare kmake)")
dir=$SMBD_CACHE/kernel/$RELEASE-$key
cached "$dir" make_kernel
if [ -n "$SANITIZER" ]; then
	stock=$dir RELEASE=${RELEASE%%[+-]*}-$SANITIZER
	key=$(hash_of "$key" "$TOP"/scripts/config/{guest,"$SANITIZER"}.config "$(declare -f copy_source configure build)")
	dir=$SMBD_CACHE/kernel/$RELEASE-$key
	cached "$dir" make_sanitizer_kernel "$stock"
fi
printf '%s\n' "$dir"
