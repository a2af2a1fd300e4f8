#!/usr/bin/env bash
# Gets what the tests need besides Go: a redis-server, versitygw, an S3 server, and
# NumPy, pandas and SciPy for the programs in docs/ that read a run's numbers or recompute them, and
# PyTorch (40 MB) for what clients/python adapts it to and for examples/external.
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

queue_server() {
	if [ -n "${COALMINE_REDIS_SERVER:-}" ] || [ -x "$tools/redis-server" ] || command -v redis-server >/dev/null; then
		return
	fi
	if ! command -v apt-get >/dev/null; then
		say "redis-server is absent and this is no Debian: SKIPPING the tests on a real Redis; install Redis 7 or newer to run them"
		return
	fi
	say "installing redis-server"
	if ! { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server; }; then
		say "redis-server cannot be installed (not root, no sudo without password, or no network): SKIPPING the tests on a real Redis"
	fi
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

# python_package MODULE NAME: Debian's package of a module of Python.
python_package() {
	if python3 -c "import $1" 2>/dev/null || /usr/bin/python3 -c "import $1" 2>/dev/null; then
		return
	fi
	if ! command -v apt-get >/dev/null; then
		say "$2 is absent and this is no Debian: SKIPPING what needs it in Python; install python3 with $2 to run it"
		return
	fi
	say "installing python3-$1"
	if ! { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "python3-$1"; }; then
		say "python3-$1 cannot be installed (not root, no sudo without password, or no network): SKIPPING what needs it in Python"
	fi
}

queue_server
s3_server
python_package numpy NumPy
python_package pandas pandas
python_package scipy SciPy
python_package torch PyTorch
