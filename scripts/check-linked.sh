#!/usr/bin/env bash
# Builds the program with the flags of a release, which are its arguments, and fails if it has
# more than 45 MB or if reflection can call a method whose name only run time knows. The linker
# then keeps every exported method of every type, a third more bytes. text/template does that,
# and so does html/template: pages are made by gomponents instead.
set -euo pipefail
cd "$(dirname "$0")/.."
most=45000000

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# With -dumpdep the linker prints "from -> to" when it first reaches a symbol; flags follow the names.
CGO_ENABLED=0 go build "$@" -ldflags='-s -w -dumpdep' -o "$folder/coalmine" ./cmd/coalmine >"$folder/log" 2>&1 || {
	cat "$folder/log" >&2
	exit 1
}
awk -F ' -> ' '
	function name(symbol) { sub(/ (<[A-Za-z]+>)+$/, "", symbol); return symbol }
	NF == 2 {
		reached[name($2)] = name($1)
		if ($2 ~ /<ReflectMethod>/) { caller = name($2); exit } # later ones may only follow from this one
	}
	END {
		if (!length(reached)) { print "the linker printed no dependencies: does it still know -dumpdep?"; exit 1 }
		if (caller == "") exit 0
		print "the linker keeps every exported method of every type, because " caller " calls one by a computed name. It is reached from"
		for (symbol = reached[caller]; symbol in reached; symbol = reached[symbol]) print "  " symbol
		print "expected no such call: leave out a package of this chain, or build with a tag that does"
		exit 1
	}' "$folder/log" >&2
size=$(stat -c %s "$folder/coalmine")
echo "the release has $size bytes"
if [ "$size" -gt "$most" ]; then
	echo "expected at most $most; go tool nm -size -sort size coalmine lists what is large in a build without -ldflags" >&2
	exit 1
fi
