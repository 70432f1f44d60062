#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Install a program from crates.io into the cache and print its path:	cargo-tool.sh <crate> <version> [cargo install options...]
# It is built in the build root, with the compiler there, so it also runs in the guest.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
crate=$1 version=$2
shift 2
ROOT=$("$TOP/scripts/root.sh")
export ROOT

install() {
	"$TOP/scripts/enter-root.sh" CARGO_BUILD_JOBS="$JOBS" CXX=g++-14 CARGO_TARGET_DIR="$1/target" \
		cargo install --locked --version "$version" --root "$1" "${@:2}" "$crate" ||
		die "$crate $version cannot be installed; is the network up?"
	rm -rf "$1/target"
}

make_tool() { step "$crate $version" install "$@"; }

dir=$SMBD_CACHE/tools/$crate-$version
cached "$dir" make_tool "$@"
printf '%s\n' "$dir/bin/$crate"
