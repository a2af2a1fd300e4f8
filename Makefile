# make test is all that a fresh Debian machine with Go needs: it gets the servers
# that the tests start (scripts/setup.sh says what it cannot get) and runs them.

TOOLS := $(CURDIR)/.tools/bin
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: build test lint generate bench clean

build:
	CGO_ENABLED=0 go build -o coalmine ./cmd/coalmine

test:
	scripts/setup.sh
	scripts/check-compose.sh
	go test -timeout 10m ./...

lint: $(GOLANGCI)
	$(GOLANGCI) run --allow-parallel-runners --timeout 10m ./...

# The version is part of the file name, so that a new one is built when it changes.
$(GOLANGCI):
	GOBIN=$(TOOLS) CGO_ENABLED=0 go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

generate:
	go generate ./...

# One run of every benchmark that the packages have.
bench:
	go test -run '^$$' -bench . -benchtime 1s ./...

# The tools in .tools stay: they take minutes to build.
clean:
	rm -f coalmine
	go clean -testcache
