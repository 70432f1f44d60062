#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The build root: a Debian tree with exactly the toolchain that Debian's backported kernels
# are built with, and all programs of the guest.  Prints its path.  See enter-root.sh.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# host_packages: what the host itself needs; everything else lives in the root.
host_packages() {
	local missing=()
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	command -v unshare >/dev/null || missing+=(util-linux)
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
	# Ask for the password now, where it can be seen, not inside a step.
	[ -z "$SUDO" ] || { command -v sudo >/dev/null && sudo -v; } || die "making the build root and running the guest needs root: run as root, or set up sudo"
	[ ${#missing[@]} -gt 0 ] || return 0
	step "host packages ${missing[*]}" install_host_packages "${missing[@]}"
}

install_host_packages() {
	command -v apt-get >/dev/null || die "this host has no apt-get; install ${*} yourself"
	$SUDO apt-get update
	$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" ||
		die "apt-get could not install ${*}; is the network up and a package mirror configured?"
}

# mirror: MIRROR=, else the Debian archive that the host's own apt uses, else mmdebstrap's default.
mirror() {
	local uri
	if [ -n "$MIRROR" ]; then
		printf '%s\n' "$MIRROR"
		return
	fi
	command -v apt-get >/dev/null || return 0
	# shellcheck disable=SC2016 # the variable is apt's
	while read -r uri; do
		printf '%s\n' "${uri%/}"
		return
	done < <(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' 2>/dev/null |
		grep -v '^file:' | sort -u)
}

packages() { sed -e '/^#/d' "$TOP/scripts/packages.list" | paste -sd,; }

bootstrap() {
	local dir=$1 m
	local -a sources=()
	m=$(mirror)
	# Without a mirror mmdebstrap takes its own, but then the extra suites must be spelled out too.
	[ -n "$m" ] || die "no Debian package mirror found in the host's apt configuration; set MIRROR="
	for suite in "$SMBD_SUITE" "$SMBD_SUITE-updates" "$SMBD_SUITE-backports"; do
		sources+=("deb $m $suite main")
	done
	$SUDO mmdebstrap --variant=minbase --aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Retries "3"' --include="$(packages)" \
		"$SMBD_SUITE" "$dir/fs" "${sources[@]}" || explain_bootstrap "$m"
	# The guest mounts this tree read-only: places where it will put something must exist.
	$SUDO mkdir -p "$dir"/fs/{etc/ksmbd,usr/lib/modules}
	$SUDO chroot "$dir/fs" dpkg-query -W rustc gcc-14 bindgen libclang1-19 binutils dwarves >"$dir/toolchain"
}

# explain_bootstrap <mirror>: say why; the log holds the rest.
explain_bootstrap() {
	if grep -aqiE 'no space left' "$STEP_LOG"; then
		die "the disk of $SMBD_CACHE filled up while the build root was made; free some, or set SMBD_CACHE="
	elif grep -aqiE 'could not (resolve|connect)|temporary failure|failed to fetch|unable to connect|timed out' "$STEP_LOG"; then
		die "no network: the package mirror $1 does not answer; check the connection, or set MIRROR="
	fi
	die "making the build root failed"
}

make_root() {
	need_room 4000
	step "build root ($SMBD_SUITE)" bootstrap "$1"
}

host_packages
key=$(hash_of "$SMBD_SUITE" "$(packages)" "$(declare -f bootstrap)")
dir=$SMBD_CACHE/root/$SMBD_SUITE-$key
cached "$dir" make_root
printf '%s\n' "$dir"
