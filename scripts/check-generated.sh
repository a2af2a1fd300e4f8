#!/usr/bin/env bash
# Fails if `go generate ./...` changes, adds or removes a generated file: then
# the generator or its output was changed without the other.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT

# sums lists every generated file with its digest.
sums() {
	git ls-files -z --cached --others --exclude-standard -- '*.go' '*.s' '*.json' |
		xargs -0 -r grep -l -s -m1 -E '^// Code generated .*DO NOT EDIT\.?$' |
		sort | xargs -r sha256sum NOTICE
}

sums >"$before"
go generate ./...
sums >"$after"
if ! diff -u "$before" "$after"; then
	echo "generated files are not what their generators write: run 'make generate' and commit the result" >&2
	exit 1
fi
