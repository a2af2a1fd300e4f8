#!/usr/bin/env bash
# Gets what the browser test needs beside Node and Debian's chromium, Playwright and axe-core,
# into .tools/browser. Without it the test is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tools/browser
cp dashboards/page/test/package.json dashboards/page/test/package-lock.json .tools/browser/
cd .tools/browser && npm ci --no-audit --no-fund
