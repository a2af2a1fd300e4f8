#!/usr/bin/env bash
# Checks deploy/kubernetes and deploy/prometheus against the types and parsers of these
# programs (scripts/deploycheck), without a cluster.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "check-deploy: $*"; }

if ! (cd scripts/deploycheck && go mod download) 2>/dev/null; then
	say "the libraries of Kubernetes and Prometheus cannot be had (no network?): SKIPPING the check of deploy/"
	exit 0
fi
checker=$(mktemp)
trap 'rm -f "$checker"' EXIT
go build -C scripts/deploycheck -o "$checker" .
"$checker" deploy

# A mistake of each sort must be found, or the check checks nothing.
broken=$(mktemp -d)
trap 'rm -rf "$checker" "$broken"' EXIT
for mistake in \
	"kubernetes/worker.yaml s/automountServiceAccountToken/automountToken/" \
	"kubernetes/coordinator.yaml s/replicas: 2/replicas: two/" \
	"kubernetes/kustomization.yaml s/resources:/resource:/" \
	"prometheus/prometheus.yaml s/dns_sd_configs/dns_sd_config/" \
	"prometheus/prometheus.yaml s/port: 9090/port: worker/" \
	"prometheus/alerts.yaml s/absent(coalmine_leader)/absent(coalmine_leader/"; do
	rm -rf "$broken/deploy" && cp -r deploy "$broken/deploy"
	sed -i "${mistake#* }" "$broken/deploy/${mistake%% *}"
	if "$checker" "$broken/deploy" 2>/dev/null; then
		say "${mistake%% *} is accepted with a mistake in it: ${mistake#* }" >&2
		exit 1
	fi
done
say "what is in deploy/ is valid, and mistakes in it are found"
