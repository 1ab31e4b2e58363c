#!/usr/bin/env bash
# Runs every fuzz target of the module for a few seconds, and one of them, by
# the day of the year, for longer.
# Usage: scripts/fuzz.sh [seconds, 3] [seconds of the one by rotation, 15]
set -euo pipefail
cd "$(dirname "$0")/.."
short=${1:-3}
long=${2:-15}

mapfile -t targets < <(grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | grep -v '^./examples/' | sed 's/:func /:/' | sort)
turn=$((10#$(date +%j) % ${#targets[@]}))
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for i in "${!targets[@]}"; do
  file=${targets[$i]%%:*}
  name=${targets[$i]##*:}
  seconds=$short
  if [ "$i" -eq "$turn" ]; then seconds=$long; fi
  echo "$(dirname "$file") $name for ${seconds}s"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" "$(dirname "$file")" >"$out" 2>&1 || { cat "$out"; exit 1; }
done
