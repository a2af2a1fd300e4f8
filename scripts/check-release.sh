#!/usr/bin/env bash
# Builds a release of the commit twice, in clones at different places, and fails if a byte differs
# or a file is missing. PLATFORMS names those that are built.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-hardlinks . "$work/first"
git clone -q --no-hardlinks "$work/first" "$work/a/second" # not of the repository, whose commit may change meanwhile
for clone in first a/second; do
	(cd "$work/$clone" && go run ./scripts/release -platforms "${PLATFORMS:-linux/amd64,windows/amd64}")
done
diff -r "$work/first/dist" "$work/a/second/dist"
cd "$work/first/dist"
sha256sum --quiet -c SHA256SUMS
for archive in *.tar.gz; do
	tar -tzf "$archive" >"$work/names"
	for name in coalmine LICENSE NOTICE README.md CHANGELOG.md man/man1/coalmine-run.1 completions/coalmine.bash; do
		grep -qx "${archive%.tar.gz}/$name" "$work/names" || { echo "$archive lacks $name" >&2; exit 1; }
	done
done
for image in *-image.tar; do
	tar -tf "$image" index.json manifest.json oci-layout >"$work/names"
done
echo "two builds give the same release of $(wc -l <SHA256SUMS) files"
