# make test is all that a fresh Debian machine with Go needs: it gets the servers
# that the tests start (scripts/setup.sh says what it cannot get) and runs them.

TOOLS := $(CURDIR)/.tools/bin
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
MISSPELL_VERSION := v0.8.0
MISSPELL := $(TOOLS)/misspell-$(MISSPELL_VERSION)
COMPOSE_VERSION := v2.40.3

.PHONY: build release test check nightly race chaos soak lint spell compose-tool generate bench clean

# A release has no debug information, and no call that makes the linker keep all methods: see
# scripts/check-linked.sh.
RELEASE := -trimpath -tags grpcnotrace

build:
	modfile=$$(scripts/modfile.sh) && CGO_ENABLED=0 go build $(RELEASE) -modfile=$$modfile -ldflags='-s -w' -o coalmine ./cmd/coalmine

# The archives of a release with checksums, in dist: see scripts/release.
release:
	go run ./scripts/release

# Tests check more than programs at work do: see internal/build.
TAGS := -tags invariants

# .ci/run vets by itself.
test:
	scripts/setup.sh
	@bash -c 'TIMEFORMAT="make test: the tests took %lR, and %lU + %lS of processor"; time go test $(TAGS) -vet=off -timeout 20m ./...'

# Checks that guard rarely: what is in compose.yaml and deploy, programs in Python that recompute
# numbers and a LaTeX that sets tables (tests named ...Elsewhere), the epsilons and the tables of the
# docs beside their commands (KEPT_SECONDS=1000 runs longer examples again, too), the size of a
# release, the page in a browser, three seeds of chaos, and in whole what make test tries a sample of:
# every wrong value in every example, and 10,000 mutated records.
KEPT_SECONDS ?= 20
check:
	scripts/setup.sh check
	scripts/check-compose.sh
	scripts/check-deploy.sh
	scripts/check-linked.sh $(RELEASE)
	COALMINE_CHECK=1 go test $(TAGS) -timeout 20m -run Elsewhere \
		./bench/cmd ./cmd/coalmine ./models ./models/vision ./internal/dataformats ./internal/endtoend ./privacy/conformance ./workflows/plan/compile ./workflows/results
	COALMINE_CHECK=1 go test $(TAGS) -timeout 20m -run 'TestThePage|Chaos' ./internal/endtoend -chaos.seeds 3
	go test $(TAGS) ./docs/...
	go test $(TAGS) -timeout 0 -run 'EpsilonsInTheDocs|KeptOutputs' ./cmd/coalmine -kept-seconds $(KEPT_SECONDS)
	go test $(TAGS) -timeout 20m -run 'OneWrongValue' ./workflows/experiment -whole
	go test $(TAGS) -timeout 20m -run 'MutatedRecord' ./workflows/control -whole

# For a night: each fuzz target for FUZZTIME within 2 GiB, then the long runs of the suites, all kept outputs,
# all recipes of the corpus of epsilons, and every value of records that are sent to a cluster.
FUZZTIME ?= 1h
nightly:
	scripts/setup.sh
	scripts/fuzz.sh $(FUZZTIME)
	$(MAKE) check KEPT_SECONDS=1000
	go test $(TAGS) -timeout 0 -run 'Steps|Right' ./tasks/audits/membership/neighbours -whole
	go test $(TAGS) -timeout 60m -run 'NoRecordStopsTheCluster' ./internal/endtoend -whole
	COALMINE_CHECK=1 go test $(TAGS) -timeout 60m -run Elsewhere ./privacy/conformance -whole
	scripts/check-release.sh
	$(MAKE) chaos SEEDS=200
	$(MAKE) soak ROUNDS=10000

# The packages with goroutines, tests included, under the race detector. Left out are
# internal/kernels and most of models, whose arithmetic would take minutes and is checked for
# equal bytes from many goroutines by make test, and internal/endtoend, which starts
# programs that were built without the detector.
RACE := ./workers ./dashboards ./storage/... ./cmd/coalmine \
	./workflows/control ./workflows/coordinator/... ./workflows/runs/datadir ./workflows/runs/leadership \
	./workflows/runs/retention ./workflows/runs \
	./workflows/control/submission ./workflows/plan/localexec ./tasks ./tasks/taskstest \
	./internal/queue ./internal/secrets ./internal/memory ./internal/goroutines \
	./internal/testserver/... ./internal/tracing ./models/networks
race:
	scripts/setup.sh
	go test $(TAGS) -race -timeout 30m $(RACE)

# Kills, cuts and corrupts parts of small clusters by seeded schedules: SEEDS of
# them, from the seed FIRST on, two at a time; about five seconds each. Then the same to clusters
# that run programs of an experiment's own.
SEEDS ?= 20
FIRST ?= 1
chaos:
	scripts/setup.sh
	cd internal/endtoend && go test $(TAGS) -count 1 -timeout 0 -parallel 2 -run '^TestChaos' -chaos.seeds $(SEEDS) -chaos.first $(FIRST)

# Trains ROUNDS rounds on a small cluster and prints how much its processes grow.
ROUNDS ?= 2000
soak:
	scripts/setup.sh
	cd internal/endtoend && go test $(TAGS) -count 1 -timeout 0 -run '^TestSoak$$' -soak.rounds $(ROUNDS)

lint: $(GOLANGCI)
	$(GOLANGCI) run --allow-parallel-runners --timeout 10m ./...

# The version is part of the file name, so that a new one is built when it changes.
$(GOLANGCI):
	GOBIN=$(TOOLS) CGO_ENABLED=0 go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

# Spelling of pages, programs and the page; golangci-lint reads Go alone. The word left out is Spanish.
spell: $(MISSPELL)
	git ls-files -z '*.md' '*.py' '*.sh' '*.yaml' '*.svelte' '*.js' ':!*/dist/*' | xargs -0 $(MISSPELL) -error -i dependencias

$(MISSPELL):
	GOBIN=$(TOOLS) CGO_ENABLED=0 go install github.com/golangci/misspell/cmd/misspell@$(MISSPELL_VERSION)
	mv $(TOOLS)/misspell $@

# Compose without an engine, for scripts/check-compose.sh. It takes minutes to build,
# within its own module: go install refuses the exclusions in its go.mod.
compose-tool: $(TOOLS)/docker-compose

$(TOOLS)/docker-compose:
	CGO_ENABLED=0 go build -C "$$(go mod download -json github.com/docker/compose/v2@$(COMPOSE_VERSION) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p')" -o $@ ./cmd

generate:
	go generate ./...

# One run of every benchmark that the packages have.
bench:
	go test -run '^$$' -bench . -benchtime 1s ./...

# The tools in .tools stay: they take minutes to build.
clean:
	rm -f coalmine
	go clean -testcache
