#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Build, check, install or clean smbdirect.ko:	modules.sh modules|build|clippy|rustdoc|modules_install|clean
#
# Without KDIR it is built inside the build root against the cached kernel, in a folder of the
# cache that belongs to this clone and that kernel, so that kernels never see each other's
# objects; "build" prints where the guest's copy is, "modules" puts one into the clone.  With KDIR
# it is plain kbuild: the host's tools, in the clone.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/kmake.sh
. "$TOP/scripts/kmake.sh"

host_kbuild() {
	local args=(-C "$KDIR" M="$TOP" -j"$JOBS")
	[ -z "${CC:-}" ] || args+=(CC="$CC")
	# A kernel built by clang needs its modules built by clang.
	! grep -q '^CONFIG_CC_IS_CLANG=y' "$KDIR/include/config/auto.conf" || args+=("LLVM=${LLVM:-1}")
	[ -z "${INSTALL_MOD_PATH:-}" ] || args+=(INSTALL_MOD_PATH="$INSTALL_MOD_PATH")
	make "${args[@]}" "$@" || does_not_compile
}

build_cached() {
	kmake "$KERNEL/build" "$RELEASE" M="$TOP" MO="$out" modules || does_not_compile
	"$TOP/scripts/enter-root.sh" strip --strip-debug -o "$out/guest/smbdirect.ko" "$out/smbdirect.ko"
}

# does_not_compile: name the first error; the log has them all.
does_not_compile() {
	local first
	first=$(grep -aE -m1 -A1 '^(ERROR|error)|: (fatal )?error' "$STEP_LOG" | paste -sd' ')
	die "smbdirect.ko does not build: ${first:-see the log}"
}

# out_folder: where this clone's objects for the cached kernel go.
out_folder() {
	ROOT=$("$TOP/scripts/root.sh")
	KERNEL=$("$TOP/scripts/kernel.sh")
	export ROOT
	RELEASE=$(<"$KERNEL/release")
	out=$SMBD_CACHE/build/$(hash_of "$TOP")/$(basename "$KERNEL")
	mkdir -p "$out/guest"
}

cached_modules() {
	local fd
	out_folder
	exec {fd}>"$SMBD_CACHE/locks/build-$(hash_of "$out").lock"
	flock "$fd"
	step "smbdirect.ko for $RELEASE" build_cached
	exec {fd}>&-
}

# clippy: a build in a folder of its own with clippy in the compiler's place.  Only what is compiled
# is looked at, so the crate is always compiled anew.  Crate-wide items need documentation, too:
# missing_docs sees none of them, since a module exports nothing in Rust's sense.
clippy() {
	local dir=$out/clippy
	mkdir -p "$dir/rust"
	rm -f "$dir/rust/smbdirect_main.o"
	# In front: the kernel's file ends in a table, which would swallow the line.
	{
		echo 'missing-docs-in-crate-items = true'
		cat "$KERNEL/build/.clippy.toml"
	} >"$dir/.clippy.toml"
	kmake "$KERNEL/build" "$RELEASE" M="$TOP" MO="$dir" CLIPPY=1 CLIPPY_CONF_DIR="$dir" \
		KRUSTFLAGS="-Wclippy::missing_docs_in_private_items" modules
}

# rustdoc: with the very options of the compiler, taken from kbuild's own record of the last build.
rustdoc() {
	local cmd
	cmd=$(sed -n 's/^savedcmd_[^ ]* := //p' "$out/clippy/rust/.smbdirect_main.o.cmd" | head -n1)
	cmd=$(sed -E -e 's/ (rustc|clippy-driver) / rustdoc /' -e 's/ --crate-type rlib//' -e 's/ --out-dir [^ ]*//' \
		-e 's/ --emit=[^ ]*//g' -e 's/;.*//' <<<"$cmd")
	(cd "$out/clippy" && "$TOP/scripts/enter-root.sh" SMBD_OBJ="$out/clippy" RUSTC_BOOTSTRAP=1 bash -c \
		"$cmd -Dwarnings --document-private-items --crate-name smbdirect -Zunstable-options --output '$out/doc'")
}

case $1 in
clippy | rustdoc)
	out_folder
	$1
	;;
modules)
	if [ -n "$KDIR" ]; then
		"$TOP/scripts/kdir-check.sh" "$KDIR"
		step "smbdirect.ko for $(cat "$KDIR/include/config/kernel.release")" host_kbuild modules
	else
		cached_modules
		cp "$out/smbdirect.ko" "$TOP/.smbdirect.$$.tmp"
		mv "$TOP/.smbdirect.$$.tmp" "$TOP/smbdirect.ko"
		say "  $TOP/smbdirect.ko is for $RELEASE"
	fi
	;;
build)
	cached_modules
	printf '%s\n' "$out/guest/smbdirect.ko"
	;;
modules_install)
	[ -n "$KDIR" ] || die "modules_install needs KDIR=, the prepared tree of the kernel to install for"
	[ -e "$TOP/smbdirect.ko" ] || die "there is no smbdirect.ko yet; run 'make modules KDIR=$KDIR' first"
	built=$(modinfo -F vermagic "$TOP/smbdirect.ko") wanted=$(cat "$KDIR/include/config/kernel.release")
	[[ $built == "$wanted "* ]] || die "smbdirect.ko is for ${built%% *}, not for $wanted; run 'make modules KDIR=$KDIR' again"
	[ -n "${INSTALL_MOD_PATH:-}" ] || [ "$(id -u)" -eq 0 ] || die "installing under /lib/modules needs root: sudo make modules_install KDIR=$KDIR"
	step "install smbdirect.ko" host_kbuild modules_install
	;;
clean)
	cd "$TOP"
	find rust include \( -name '*.o' -o -name '.*.cmd' -o -name '.*.d' -o -name '*_generated.rs*' \) -delete
	rm -rf ./*.ko ./*.o ./*.mod ./*.mod.c .*.cmd .*.tmp .tmp_* modules.order Module.symvers .module-common.o \
		"$SMBD_CACHE/build/$(hash_of "$TOP")"
	;;
*) die "modules.sh: $1 is none of modules, modules_install, clean" ;;
esac
