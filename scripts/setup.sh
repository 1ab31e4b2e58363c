#!/usr/bin/env bash
# Installs what the demo or the tests need and this machine lacks:
#   setup.sh demo   redis-server, postgresql
#   setup.sh test   the same, a C compiler with its headers for go test -race,
#                   curl for the commands of the README, spin for spec/,
#                   pgbouncer for the ledger behind a pooler
# Quick when nothing is missing. Says what it installs before it does. The
# services that the packages bring are left stopped: demo and tests start
# servers of their own.
# Without a known package manager it says what is missing, and fails for test.
set -euo pipefail

purpose=${1:-test}
case $purpose in
demo | test) ;;
*)
	echo "usage: $0 [demo|test]" >&2
	exit 2
	;;
esac

have() { command -v "$1" >/dev/null 2>&1; }

have_postgres() {
	have initdb && have postgres && return
	local initdb
	for initdb in /usr/lib/postgresql/*/bin/initdb; do
		if [ -x "$initdb" ] && [ -x "${initdb%initdb}postgres" ]; then return 0; fi
	done
	return 1
}

have_compiler() {
	have "${CC:-gcc}" && echo '#include <stdlib.h>' | "${CC:-gcc}" -E - >/dev/null 2>&1
}

missing=()
have redis-server || have valkey-server || missing+=(redis-server)
have_postgres || missing+=(postgresql)
if [ "$purpose" = test ]; then
	have_compiler || missing+=(gcc libc6-dev)
	have curl || missing+=(curl)
	have spin || missing+=(spin)
	have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
fi
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if ! have apt-get; then
	echo "setup: missing: ${missing[*]}; no apt-get here, so install them by hand." >&2
	if [ "$purpose" = demo ]; then exit 0; fi # the demo can rehearse without them
	exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! have sudo; then
		echo "setup: missing: ${missing[*]}; run this as root, or install sudo." >&2
		exit 1
	fi
	as_root=(sudo)
fi
root() { "${as_root[@]}" "$@"; }

echo "setup: installing ${missing[*]} with apt-get${as_root:+ (through sudo)}; the services they bring are left stopped."

# While this file says 101, packages do not start their services.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'root rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
	root chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
root apt-get update -qq
root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

# Only services that this run has installed, and only where systemd would
# start them at the next boot.
if [ -d /run/systemd/system ]; then
	for package in "${missing[@]}"; do
		case $package in
		redis-server | postgresql | pgbouncer) root systemctl disable --now "$package" || echo "setup: $package stays enabled" >&2 ;;
		esac
	done
fi
have_postgres || { echo "setup: postgresql was installed, but initdb and postgres are not where they were expected" >&2; exit 1; }
echo "setup: done."
