#!/usr/bin/env bash
# Tries the two commands of the README on a machine where neither server was
# installed: a fresh Debian in a chroot, with make, Go and this repository's
# HEAD, and nothing else of ours.
#
#   scripts/chroot-check.sh [FOLDER] [TARGET…]     as root; needs debootstrap
#
# FOLDER (a new one under $TMPDIR by default) takes the chroot and is removed at
# the end. TARGETs are make targets; the default is demo, then test. SUITE
# (bookworm) and MIRROR choose the Debian. /proc is the only mount; /dev has the
# few nodes that debootstrap makes. Go and its module cache are copied.
set -euo pipefail

if [ "$(id -u)" -ne 0 ]; then
	echo "chroot-check: run this as root: it makes a chroot and mounts in it" >&2
	exit 2
fi
command -v debootstrap >/dev/null || {
	echo "chroot-check: install debootstrap first" >&2
	exit 2
}

repo=$(cd "$(dirname "$0")/.." && pwd)
root=${1:-$(mktemp -d)}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then targets=(demo test); fi

clean_up() {
	if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
	# Never through a mount that could not be undone.
	rm -rf --one-file-system "$root"
}
trap clean_up EXIT

echo "== a fresh ${SUITE:-bookworm} in $root"
mkdir -p "$root"
log=$(mktemp)
debootstrap --variant=minbase --include=make,ca-certificates "${SUITE:-bookworm}" "$root" ${MIRROR:+"$MIRROR"} >"$log" 2>&1 || {
	tail -20 "$log" >&2
	exit 1
}
rm -f "$log"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"

echo "== Go, its module cache, and this repository's HEAD"
cp -a "$(go env GOROOT)" "$root/usr/local/go"
mkdir -p "$root/gomod"
cp -a "$(go env GOMODCACHE)/." "$root/gomod"
git clone -q --no-hardlinks "$repo" "$root/src"

inside() {
	env -i PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root TERM=dumb GOMODCACHE=/gomod GOPROXY=off GOTOOLCHAIN=local \
		chroot "$root" /bin/sh -c "cd /src && $1"
}
for program in redis-server initdb postgres gcc; do
	if inside "command -v $program || ls /usr/lib/postgresql/*/bin/$program" >/dev/null 2>&1; then
		echo "chroot-check: $program is there already: the check would prove nothing" >&2
		exit 1
	fi
done

for target in "${targets[@]}"; do
	echo "== make $target"
	began=$(date +%s)
	inside "make $target"
	echo "== make $target passed in $(($(date +%s) - began)) s"
done

# Nothing may run on: neither our servers nor the packages' own.
left=$(find /proc -maxdepth 2 -name root -lname "$root*" 2>/dev/null || true)
if [ -n "$left" ]; then
	echo "chroot-check: processes were left behind: $left" >&2
	exit 1
fi
echo "== nothing was left running"
