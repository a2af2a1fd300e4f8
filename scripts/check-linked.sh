#!/usr/bin/env bash
# Builds the program with the flags of a release, which are its arguments, and fails if it has
# more than 76 MB or if reflection can call a method whose name only run time knows, by a caller
# other than the accepted one. After such a call the linker keeps every exported method of every
# type, a third more bytes. text/template makes it, and so does html/template: pages are made by
# gomponents instead. Accepted is Gorgonia's tensor.Dtype: it embeds reflect.Type, so that it has a
# method MethodByName, and importing package tensor is enough to link that method. The second
# build replaces Dtype's method in a copy of the package, to find any other caller.
set -euo pipefail
cd "$(dirname "$0")/.."
most=76000000

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# compile NAME FLAG...: builds $folder/NAME, and leaves what the compiler and the linker print in $folder/log.
compile() {
	CGO_ENABLED=0 go build "${@:2}" -o "$folder/$1" ./cmd/coalmine >"$folder/log" 2>&1 || {
		cat "$folder/log" >&2
		exit 1
	}
}

compile coalmine "$@" -ldflags='-s -w'
size=$(stat -c %s "$folder/coalmine")
echo "the release has $size bytes"
if [ "$size" -gt "$most" ]; then
	echo "expected at most $most; go tool nm -size -sort size coalmine lists what is large in a build without -ldflags" >&2
	exit 1
fi

cp -r "$(go list -m -f '{{.Dir}}' gorgonia.org/tensor)" "$folder/tensor"
chmod -R u+w "$folder/tensor"
cat >"$folder/tensor/method_by_name.go" <<'END'
package tensor

import "reflect"

func (Dtype) MethodByName(string) (reflect.Method, bool) { return reflect.Method{}, false }
func (Dtype) Method(int) reflect.Method                  { return reflect.Method{} }
END
cp go.mod "$folder/go.mod" && cp go.sum "$folder/go.sum"
go mod edit -replace "gorgonia.org/tensor=$folder/tensor" "$folder/go.mod"
# With -dumpdep the linker prints "from -> to" when it first reaches a symbol; flags follow the names.
compile other "$@" -modfile="$folder/go.mod" -ldflags='-s -w -dumpdep'
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
		print "expected no such call but that of tensor.Dtype: leave out a package of this chain, or build with a tag that does"
		exit 1
	}' "$folder/log" >&2
echo "without the method of tensor.Dtype it would have $(stat -c %s "$folder/other") bytes"
