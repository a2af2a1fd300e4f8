#!/usr/bin/env bash
# Checks compose.yaml by Compose's own `config`: the one of docker, or the tool
# alone, as `make compose-tool` builds it. Where there is neither, the library that
# Compose is made of reads the file (scripts/composecheck). None needs an engine.
set -euo pipefail
cd "$(dirname "$0")/.."

secrets=(COALMINE_REDIS_PASSWORD COALMINE_S3_SECRET COALMINE_TOKEN)
say() { echo "check-compose: $*"; }

PATH=$PWD/.tools/bin:$PATH

# compose_config lets the Compose that is given read the file, all profiles on.
compose_config() { "$@" --file compose.yaml --env-file /dev/null --profile '*' config --quiet; }

if docker compose version >/dev/null 2>&1; then
	config() { compose_config docker compose; }
elif docker-compose version 2>/dev/null | grep -q 'Docker Compose'; then
	config() { compose_config docker-compose; }
elif (cd scripts/composecheck && go mod download) 2>/dev/null; then
	checker=$(mktemp)
	trap 'rm -f "$checker"' EXIT
	go build -C scripts/composecheck -o "$checker" .
	config() { "$checker" compose.yaml; }
else
	say "neither docker compose nor compose-go can be had (no network?): SKIPPING the check of compose.yaml"
	exit 0
fi

# config_without runs the check with all secrets set but one, which is empty.
config_without() (
	for name in "${secrets[@]}"; do
		export "$name=0123456789abcdef"
	done
	[ -z "$1" ] || export "$1="
	config
)

config_without ""
for name in "${secrets[@]}"; do
	if config_without "$name" 2>/dev/null; then
		say "compose.yaml is accepted although $name is empty: it must be required, as \${$name:?}" >&2
		exit 1
	fi
done
say "compose.yaml is valid, and refused where a secret is missing"
