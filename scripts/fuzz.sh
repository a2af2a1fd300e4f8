#!/usr/bin/env bash
# Fuzzes every entrance, one after another, each for FUZZTIME in a process whose memory is
# limited to 2 GiB: ./scripts/fuzz.sh [FUZZTIME] [PACKAGE...]. A finding is written to the
# package's testdata/fuzz, where it stays as a test, and the script goes on and fails at its end.
set -uo pipefail
cd "$(dirname "$0")/.."

time=${1:-1h}
shift || true
packages=("$@")
if [ ${#packages[@]} -eq 0 ]; then
	mapfile -t packages < <(git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Minimizing takes most of the time of a target by default, and finds nothing.
fuzz() { # of a test binary, a target
	# Go reserves far more addresses than it uses, so that the limit is one of data, not of addresses.
	ulimit -d $((2 << 20))
	"$1" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$time" -test.fuzzminimizetime 100x \
		-test.parallel 1 -test.fuzzcachedir "$work/cache/$2"
}

failed=()
for package in "${packages[@]}"; do
	binary=$work/$(basename "$package").test
	go test -tags invariants -c -fuzz . -o "$binary" "$package" || exit 1
	cd "$package"
	for target in $("$binary" -test.list '^Fuzz'); do
		echo "== $package $target"
		(fuzz "$binary" "$target") >"$work/log" 2>&1 || { failed+=("$package $target"); cat "$work/log"; }
		grep -a 'execs:' "$work/log" | tail -n 1
	done
	cd - >/dev/null
	rm -f "$binary"
done
if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
