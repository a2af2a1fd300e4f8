#!/usr/bin/env bash
# Measures the page in a browser, and a server with 100 pages open on a run that goes on, and
# prints a table; bench/README.md has one. It needs Node, Debian's chromium, redis-server and what
# scripts/browser-tools.sh gets, and a quiet machine. COALMINE names a binary that is built, and
# EXPERIMENT another experiment than examples/dp-ftrl-small.yaml.
#
# With "night" it leaves two pages open for a night of ten hours instead, 100 times as fast
# (MINUTES, by default 6), and prints what they and the server hold at ten points. The run is
# then made longer (EPOCHS, by default 30), so that it goes on all night.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
coalmine=${COALMINE:-$work/coalmine}
[ -n "${COALMINE:-}" ] || CGO_ENABLED=0 go build -o "$coalmine" ./cmd/coalmine
redis-server --port 18791 --save '' --appendonly no --maxmemory-policy noeviction >/dev/null &
export COALMINE_REDIS_URL=redis://127.0.0.1:18791/0 COALMINE_STORE_URL=$work/store
"$coalmine" serve --listen 127.0.0.1:18792 >/dev/null 2>"$work/log" &
server=$!
until curl -sf 127.0.0.1:18792/readyz >/dev/null; do sleep 0.2; done
nice "$coalmine" worker --slots 1 >/dev/null 2>&1 &
longer=()
[ "${1:-}" != night ] || longer=(--set "training.epochs=${EPOCHS:-30}")
"$coalmine" submit "${EXPERIMENT:-examples/dp-ftrl-small.yaml}" "${longer[@]}" >/dev/null
cp dashboards/page/test/{measure,night}.mjs .tools/browser/
cd .tools/browser
if [ "${1:-}" = night ]; then
	node night.mjs http://127.0.0.1:18792 latest "${MINUTES:-6}"
else
	node measure.mjs ../../dashboards/web http://127.0.0.1:18792 latest "$server"
fi
