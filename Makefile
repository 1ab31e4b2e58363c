GO      ?= go
SECONDS ?= 60
MUTANTS ?= all

# Packages whose tests drive real servers run one at a time: many do so against
# the clock.
PACKAGES = $(GO) list -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./...
SERVERS  = /\/internal\/(testenv|servers|cluster)[] ]/

.DEFAULT_GOAL := help
.PHONY: help setup demo test fuzz mutants long bench check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install redis-server, postgresql and a C compiler where they are missing
	@scripts/setup.sh test

demo: ## kill Redis nodes under load for a minute, and judge (SECONDS=60)
	@scripts/setup.sh demo
	$(GO) run ./chaos -duration $(SECONDS)s

test: ## run every test, with the race detector
	@scripts/setup.sh test
	$(GO) build -race ./... # with all cores
	$(GO) test -race -timeout 15m $$($(PACKAGES) | awk '!$(SERVERS) { print $$1 }')
	$(GO) test -race -p 1 -timeout 15m $$($(PACKAGES) | awk '$(SERVERS) { print $$1 }')
	$(GO) test -race -tags chaos ./internal/failpoint

check: ## formatting, go vet, and whether go.mod is tidy
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags chaos ./...
	$(GO) mod tidy -diff

fuzz: ## every fuzz target for 3 seconds, one by rotation for 15
	@scripts/fuzz.sh

mutants: ## break one rule of the engine after the other, and see that each is noticed (MUTANTS=all)
	@scripts/setup.sh test
	$(GO) run ./chaos -mutant $(MUTANTS) -out "$$(mktemp -d)/mutants"

long: ## tests with many more random cases, then three chaos runs of ten minutes, then recovery times
	@scripts/setup.sh test
	REDFENCE_LONG=1 $(GO) test -race -timeout 60m -count 1 ./...
	for seed in 1 2 3; do $(GO) run ./chaos -preset standard -seed $$seed || exit 1; done
	$(GO) run ./chaos -preset cycles

bench: ## measure against other libraries on servers of its own, in about three minutes
	@scripts/setup.sh demo
	$(GO) run ./cmd/bench
