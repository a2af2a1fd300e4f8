#!/usr/bin/env bash
# Builds the program as a release is built, with the flags that are its arguments, runs its demo, and
# fails if it has more than 60 MB or if reflection can call a method whose name only run time knows.
# After such a call the linker keeps every exported method of every type, a third more bytes.
# text/template makes it, and so does html/template: pages are made by gomponents instead.
# scripts/modfile.sh hides that of Gorgonia.
set -euo pipefail
cd "$(dirname "$0")/.."
most=60000000

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# With -dumpdep the linker prints "from -> to" when it first reaches a symbol; flags follow the names.
modfile=$(scripts/modfile.sh)
CGO_ENABLED=0 go build "$@" -modfile="$modfile" -ldflags='-s -w -dumpdep' -o "$folder/coalmine" ./cmd/coalmine >"$folder/log" 2>&1 || {
	cat "$folder/log" >&2
	exit 1
}
size=$(($(wc -c <"$folder/coalmine")))
echo "the release has $size bytes"
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
		print "expected no such call: leave out a package of this chain, build with a tag that does, or hide the method in scripts/modfile.sh"
		exit 1
	}' "$folder/log" >&2
if [ "$size" -gt "$most" ]; then
	echo "expected at most $most; go tool nm -size -sort size coalmine lists what is large in a build without -ldflags" >&2
	exit 1
fi
"$folder/coalmine" demo --home "$folder/home"
