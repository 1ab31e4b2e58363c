#!/usr/bin/env bash
# Harms Redis containers by hand, and mends them again:
#
#   chaos/scripts/redis.sh kill|pause|cut|flush NODES SECONDS
#
# kill   SIGKILL, and start again: without its data if it has no volume
# pause  freeze the processes (SIGSTOP), and let them go on
# cut    take the containers off their networks, and put them back
# flush  FLUSHALL, at once; there is nothing to mend
#
# NODES of the running containers whose compose service begins with "redis",
# drawn by chance, for SECONDS. It ends with all of them mended, also when it is
# interrupted. COMPOSE_PROJECT_NAME picks one deployment among several.
set -euo pipefail

usage() {
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
	exit 2
}
[ $# -eq 3 ] || usage
what=$1 nodes=$2 seconds=$3
case $what in kill | pause | cut | flush) ;; *) usage ;; esac
case $nodes$seconds in *[!0-9]*) usage ;; esac

filters=(--filter status=running)
if [ -n "${COMPOSE_PROJECT_NAME:-}" ]; then
	filters+=(--filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME")
fi
mapfile -t victims < <(docker ps "${filters[@]}" --format '{{.ID}} {{.Label "com.docker.compose.service"}}' |
	awk '$2 ~ /^redis/ { print $1 }' | shuf -n "$nodes")
if [ "${#victims[@]}" -lt "$nodes" ]; then
	echo "redis.sh: ${#victims[@]} Redis containers run, $nodes were asked for; start the deployment first (docker compose up)" >&2
	exit 1
fi

networks() { docker inspect --format '{{range $name, $_ := .NetworkSettings.Networks}}{{println $name}}{{end}}' "$1"; }
service() { docker inspect --format '{{index .Config.Labels "com.docker.compose.service"}}' "$1"; }

declare -A cut_from
mend() {
	trap - EXIT
	for id in "${victims[@]}"; do
		case $what in
		kill) docker start "$id" >/dev/null ;;
		pause) docker unpause "$id" >/dev/null ;;
		cut) for network in ${cut_from[$id]:-}; do docker network connect --alias "$(service "$id")" "$network" "$id"; done ;;
		esac
	done
	echo "$(date +%T) mended"
}
trap mend EXIT
trap 'exit 130' INT TERM

echo "$(date +%T) $what ${victims[*]} for $seconds s"
for id in "${victims[@]}"; do
	case $what in
	kill) docker kill --signal KILL "$id" >/dev/null ;;
	pause) docker pause "$id" >/dev/null ;;
	flush) docker exec "$id" redis-cli FLUSHALL >/dev/null ;;
	cut)
		cut_from[$id]=$(networks "$id")
		for network in ${cut_from[$id]}; do docker network disconnect "$network" "$id"; done
		;;
	esac
done
sleep "$seconds"
