#!/usr/bin/env bash
# Gets what the tests need besides Go: redis-server, and versitygw, an S3 server. With the argument
# check, also NumPy, pandas, SciPy, scikit-learn and PyTorch (40 MB), by which programs in Python
# recompute the numbers of runs, and Playwright, which drives a browser.
# Nothing here is fatal: what cannot be had is named, and its tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/.tools/bin
versitygw_version=v1.8.0

say() { echo "setup: $*"; }

# as_root runs a command as root, or fails at once if this user may not.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

# debian_packages USE PACKAGE...: installs packages, or says what is skipped without them.
debian_packages() {
	local use=$1
	shift
	if ! command -v apt-get >/dev/null; then
		say "$* absent, and this is no Debian: SKIPPING $use; install them to run it"
		return
	fi
	say "installing $*"
	if ! { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"; }; then
		say "$* cannot be installed (not root, no sudo without password, or no network): SKIPPING $use"
	fi
}

queue_server() {
	if [ -n "${COALMINE_REDIS_SERVER:-}" ] || [ -x "$tools/redis-server" ] || command -v redis-server >/dev/null; then
		return
	fi
	debian_packages "the tests on a real Redis (7 or newer)" redis-server
}

s3_server() {
	if [ -n "${COALMINE_VERSITYGW:-}" ] || [ -x "$tools/versitygw" ] || command -v versitygw >/dev/null; then
		return
	fi
	say "building versitygw $versitygw_version into .tools/bin"
	if ! GOBIN=$tools CGO_ENABLED=0 go install "github.com/versity/versitygw/cmd/versitygw@$versitygw_version"; then
		say "versitygw cannot be built (no network?): SKIPPING the tests on a real S3 server"
	fi
}

# python_packages installs what Debian has of the modules that are absent.
python_packages() {
	local absent=()
	for module in "$@"; do
		if ! python3 -c "import $module" 2>/dev/null && ! /usr/bin/python3 -c "import $module" 2>/dev/null; then
			absent+=("python3-$module")
		fi
	done
	[ ${#absent[@]} = 0 ] || debian_packages "the comparisons with programs in Python" "${absent[@]}"
}

queue_server
s3_server
if [ "${1:-}" = check ]; then
	python_packages numpy pandas scipy sklearn torch mpmath
	[ -d .tools/browser/node_modules ] || scripts/browser-tools.sh ||
		say "Playwright cannot be installed (no npm, or no network): SKIPPING the tests in a browser"
fi
