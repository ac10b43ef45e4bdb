# Sourced by the scripts in this folder: who builds, with which cargo, and how to say things.
#
# What is built belongs to the account that owns the work: run with sudo from an ordinary account, cargo runs as that
# account with the toolchain in its home, and only what needs root runs as root.
# shellcheck shell=bash

set -euo pipefail

repo=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
tool=$(basename -- "$0")
oldest_rust=1.85

if [ -t 1 ]; then
	bold=$'\e[1m' plain=$'\e[0m'
else
	bold='' plain=''
fi

say() { printf '%s\n' "$tool: $*"; }
title() { printf '\n%s== %s ==%s\n' "$bold" "$*" "$plain"; }
die() {
	printf '%s\n' "tools/$tool: $*" >&2
	exit 1
}

home_of() { getent passwd "$1" | cut -d: -f6; }

# The account that builds: whoever called sudo, if the checkout is theirs to write in; else the checkout's owner.
find_owner() {
	local me caller
	me=$(id -un)
	owner=$me
	[ "$(id -u)" = 0 ] || return 0
	caller=${SUDO_USER:-${DOAS_USER:-}}
	[ -n "$caller" ] && [ "$caller" != root ] || return 0
	if runuser -u "$caller" -- test -w "$repo"; then
		owner=$caller
	else
		owner=$(stat -c %U -- "$repo")
	fi
	[ "$owner" != UNKNOWN ] || die "the owner of $repo has no account here: chown it, or clone it anew"
}

# Run a command as that account, with its home and its toolchain.
as_owner() {
	local -a surroundings=(HOME="$owner_home" USER="$owner" LOGNAME="$owner" PATH="$owner_path")
	if [ "$owner" = "$(id -un)" ]; then
		env "${surroundings[@]}" "$@"
	else
		# What sudo kept of the caller's own settings is kept; what is root's is not.
		runuser -u "$owner" -- env -u CARGO_HOME -u RUSTUP_HOME -u XDG_RUNTIME_DIR "${surroundings[@]}" "$@"
	fi
}

version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Sets owner, owner_home, owner_path and cargo; says what is wrong when there is no toolchain that can build this.
find_cargo() {
	find_owner
	owner_home=$(home_of "$owner")
	[ -n "$owner_home" ] || owner_home=${HOME:-/root}
	local system=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	local -a places=("$owner_home/.cargo/bin")
	if [ "$owner" = "$(id -un)" ]; then
		[ -z "${CARGO_HOME:-}" ] || places=("$CARGO_HOME/bin" "${places[@]}")
		local -a own
		IFS=: read -r -a own <<<"${PATH:-}"
		places+=("${own[@]}")
	fi
	places+=(/usr/local/cargo/bin /usr/local/bin /usr/bin)

	local place version seen=''
	for place in "${places[@]}"; do
		[ -x "$place/cargo" ] && [ -x "$place/rustc" ] || continue
		owner_path=$place:$system
		version=$(as_owner "$place/rustc" --version 2>/dev/null | cut -d' ' -f2) || continue
		if [ -n "$version" ] && version_at_least "$version" $oldest_rust; then
			cargo=$place/cargo
			rust_version=$version
			return 0
		fi
		seen=" ($place/rustc is ${version:-broken})"
	done
	die "no Rust $oldest_rust or newer for account $owner$seen.
  Any Debian: install rustup as $owner (https://rustup.rs), then call this again.
  Debian 13 or newer: apt-get install cargo rustfmt rust-clippy"
}

cargo() { (cd "$repo" && as_owner "$cargo" "$@"); }
