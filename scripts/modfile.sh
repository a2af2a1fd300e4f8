#!/usr/bin/env bash
# Writes .tools/release.mod and prints its name, for the flag -modfile of go build. It is go.mod
# with gorgonia.org/tensor replaced by a copy that hides two methods: tensor.Dtype embeds
# reflect.Type, so it has a method MethodByName, and importing package tensor is enough to link it.
# Since that method calls others by names that only run time knows, the linker would keep every
# exported method of every type, 17 MB. Nothing calls Method or MethodByName of a Dtype.
set -euo pipefail
cd "$(dirname "$0")/.."
module=gorgonia.org/tensor

go mod download "$module"
read -r version folder < <(go list -m -f '{{.Version}} {{.Dir}}' "$module")
[ -d "$folder" ] || { echo "$module has no folder in the module cache; expected go mod download to fetch it" >&2; exit 1; }
copy=.tools/tensor-$version
if [ ! -d "$copy" ]; then
	mkdir -p .tools
	new=$(mktemp -d .tools/new-XXXXXX)
	trap 'rm -rf "$new"' EXIT
	cp -r "$folder" "$new/tensor"
	chmod -R u+w "$new/tensor"
	mv "$new/tensor" "$copy"
fi
cat >"$copy/method_by_name.go" <<'END'
package tensor

import "reflect"

func (Dtype) MethodByName(string) (reflect.Method, bool) { return reflect.Method{}, false }
func (Dtype) Method(int) reflect.Method                  { return reflect.Method{} }
END
cp go.mod .tools/release.mod
cp go.sum .tools/release.sum
go mod edit -replace "$module=./$copy" .tools/release.mod
echo .tools/release.mod
