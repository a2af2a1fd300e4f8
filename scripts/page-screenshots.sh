#!/usr/bin/env bash
# Takes pictures of every view of the page, light and dark, wide and narrow:
#   scripts/page-screenshots.sh FOLDER [HOME [VIEW...]]
# HOME is the data directory of a run, which goes on meanwhile if it is not done; without it
# dashboards/page/test/shots.yaml runs first, for some minutes. It needs Node, Debian's chromium, and what
# scripts/browser-tools.sh gets. COALMINE names a binary that is built.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:?the folder for the pictures}")
mkdir -p "$folder"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
coalmine=${COALMINE:-$work/coalmine}
[ -n "${COALMINE:-}" ] || CGO_ENABLED=0 go build -o "$coalmine" ./cmd/coalmine
home=${2:-$work/home}
[ -n "${2:-}" ] || "$coalmine" run dashboards/page/test/shots.yaml --home "$home"
nice -n 19 "$coalmine" serve --home "$home" --listen 127.0.0.1:0 >/dev/null 2>"$work/log" &
server=$!
until grep -q 'code=' "$work/log"; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$work/log" >&2
    echo "page-screenshots.sh: coalmine serve has ended without a page of $home; end the process that uses this home, or name a copy of it" >&2
    exit 1
  fi
  sleep 0.2
done
login=$(grep -o 'http[^ ]*' "$work/log" | head -1)
cp dashboards/page/test/shots.mjs .tools/browser/
(cd .tools/browser && node shots.mjs "$login" "$folder" "${@:3}")
