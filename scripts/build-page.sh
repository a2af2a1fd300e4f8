#!/usr/bin/env bash
# Builds the page of dashboards/page into dashboards/web/app, which is committed; with --check
# it only says whether that is what the sources give. Without npm, or without the packages,
# there is nothing to check by: TestThePageIsBuiltOfItsSources notices a change all the same.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/web"
git ls-files -z --cached --others --exclude-standard dashboards/page | (cd dashboards && sed -z 's|^dashboards/||' | xargs -0 cp --parents -t "$work")

if ! command -v npm >/dev/null || ! (cd "$work/page" && npm ci --no-audit --no-fund >"$work/log" 2>&1); then
	if [ "${1:-}" = --check ]; then
		echo "the page's build is not checked: npm is not there, or cannot get its packages" >&2
		exit 0
	fi
	cat "$work/log" >&2 || true
	echo "building the page needs npm and the packages of dashboards/page/package.json" >&2
	exit 1
fi
(cd "$work/page" && npm run --silent check && npm run --silent build)

if [ "${1:-}" = --check ]; then
	if ! diff -r "$work/web/app" dashboards/web/app; then
		echo "dashboards/web/app is not what dashboards/page gives: run scripts/build-page.sh and commit the result" >&2
		exit 1
	fi
	exit 0
fi
rm -rf dashboards/web/app
cp -r "$work/web/app" dashboards/web/app
