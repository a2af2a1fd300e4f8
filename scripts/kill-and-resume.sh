#!/usr/bin/env bash
# Shows that a run which is killed in the middle ends as one that is not. It runs an
# experiment in a home of its own, ends the process by kill -9 once so many cells are
# done, and starts the same command again, as often as there are numbers. Then it runs the
# experiment in another home without a break, and compares the rows of cells and of
# canaries, byte for byte.
#
#   scripts/kill-and-resume.sh examples/thakkar-2020/table-2-small.yaml 3,8 --set grid.replicates=1
#
# COALMINE names the program, HOMES the folder of the two homes, which is made; by default
# the program is built, and the homes are removed in the end. With HOMES they stay, and a
# script that was ended itself goes on with them.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "kill-and-resume: $*"; }

if [ $# -lt 2 ]; then
	say "expected an experiment and after how many finished cells to kill, such as: $0 examples/quickstart.yaml 1,2" >&2
	exit 2
fi
experiment=$1
kills=$2
settings=("${@:3}")

own=$(mktemp -d)
running=
# leave ends what still runs, and removes what this script has made.
leave() {
	[ -z "$running" ] || kill -9 "$running" 2>/dev/null || true
	rm -rf "$own"
}
trap leave EXIT
homes=${HOMES:-$own}
mkdir -p "$homes"
coalmine=${COALMINE:-$own/coalmine}
[ -n "${COALMINE:-}" ] || go build -o "$coalmine" ./cmd/coalmine

# start runs the experiment in a home, in the background.
start() {
	"$coalmine" run "$experiment" "${settings[@]}" --home "$homes/$1" >>"$homes/$1.log" 2>&1 &
	running=$!
}

# finish waits for it, which must end well.
finish() {
	if ! wait "$running"; then
		say "the run in $homes/$1 has failed; the end of its log:" >&2
		tail -n 5 "$homes/$1.log" >&2
		exit 1
	fi
	running=
}

# finished says how many cells of the run in a home are done.
finished() { (grep -o '^c[0-9]* done' "$homes/$1.log" || true) | sort -u | wc -l; }

# interrupt kills the run once so many cells are done. It fails if the run has ended before.
interrupt() {
	start killed
	until [ "$(finished killed)" -ge "$1" ]; do
		if ! kill -0 "$running" 2>/dev/null; then
			finish killed
			say "the run has ended before it could be killed after $1 cells; expected fewer" >&2
			exit 1
		fi
		sleep 0.2
	done
	kill -9 "$running"
	wait "$running" 2>/dev/null || true
	running=
	"$coalmine" status latest --home "$homes/killed" >"$homes/killed-after-$1.txt"
	say "killed with $(finished killed) cells done, when $1 were waited for"
}

# rows writes what a run in a home has found.
rows() {
	for of in cells canaries; do
		"$coalmine" results latest --home "$homes/$1" --format csv --rows "$of" >"$homes/$1-$of.csv"
	done
}

for after in ${kills//,/ }; do
	interrupt "$after"
done
start killed
finish killed
rows killed
say "resumed, and done"
start whole
finish whole
rows whole
for of in cells canaries; do
	if ! cmp "$homes/killed-$of.csv" "$homes/whole-$of.csv"; then
		say "the rows of $of differ" >&2
		exit 1
	fi
	say "$of: $(($(wc -l <"$homes/whole-$of.csv") - 1)) rows, the same to the byte ($(sha256sum <"$homes/whole-$of.csv" | cut -c-16))"
done
