# Windlass. `make` lists the targets.

SHELL := /bin/bash
VERSION ?= $(shell bash scripts/version)
PKG ?= ./...
BENCH ?= .
RUNS ?= 1000000
export FUZZTIME ?= 10s

.DEFAULT_GOAL := help
.PHONY: help build setup test test-fast test-docker cover lint generate verify cross fuzz bench bench-all bench-day bench-compare test-ecosystem test-cluster cluster-up cluster-down release-files release-test release-dry-run vulncheck clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./windlass, static, with its version
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o windlass ./cmd/windlass

setup: ## install and start what the tests need (root on Debian; else say what is missing)
	@bash scripts/setup-test

test: ## everything: set-up, all tests with the race detector, lint, cross compile, generated files
	@bash scripts/test-all

test-fast: ## unit tests alone, without services
	go test -short $(if $(filter ./...,$(PKG)),./cmd/... ./internal/... ./sdk/...,$(PKG))

test-docker: setup ## the packages that have tests with a Docker engine
	@pkgs=$$(grep -rl --include='*_test.go' 'testneed\.Docker(' cmd internal sdk 2>/dev/null | xargs -r -n 1 dirname | sort -u | sed 's,^,./,'); \
	if [ -n "$$pkgs" ]; then go test -race -count=1 -p 1 $$pkgs; else echo "no package has such tests"; fi

cover: setup ## test coverage by function, and coverage.html
	go test -covermode atomic -coverprofile coverage.out $(PKG)
	go tool cover -func coverage.out
	go tool cover -html coverage.out -o coverage.html

lint: ## check code and the linter's own configuration
	@bash scripts/lint

generate: ## write all generated files
	@bash scripts/generate

verify: ## check that the generated files are up to date
	@bash scripts/verify

cross: ## compile and vet for macOS and Windows
	@bash scripts/cross

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@bash scripts/fuzz $(PKG)

bench: ## run the benchmarks (BENCH=regexp chooses)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 30m ./bench/... ./internal/pluginhost

bench-all: ## run every benchmark once, into bench-results.txt (ARGS='--quick' '--cluster' '--only REGEXP')
	@bash scripts/bench-all $(ARGS)

bench-day: ## a day of a million runs in simulated time (RUNS=number), and its picture, docs/pictures/day.svg
	WINDLASS_BENCH_RUNS=$(RUNS) WINDLASS_BENCH_PICTURE=$(CURDIR)/docs/pictures/day.svg go test -run '^TestDay$$' -count 1 -v -timeout 3h ./bench

bench-compare: ## compare short benchmarks with the merge base (BASE=commit)
	@bash scripts/bench-compare

test-ecosystem: ## let the ecosystem's own client and server judge ours (a module of its own, Docker)
	cd test/ecosystem && go test ./...

test-cluster: ## the drivers' tests on a real Kubernetes of one node (root on Debian)
	@bash scripts/test-cluster

cluster-up: ## start a Kubernetes of one node, and say how to reach it (root on Debian)
	@bash scripts/cluster up

cluster-down: ## end it
	@bash scripts/cluster down

release-files: ## write what a release has beside the program: notices of third parties, manual pages, completions
	@bash scripts/release-files

release-test: ## make this machine's part of a release into dist/, and look at what came out (root on Debian)
	@bash scripts/release-test

release-dry-run: ## make a whole release twice, all but the upload, and compare it byte for byte
	@bash scripts/release-test --twice

vulncheck: ## ask Go's vulnerability database about what the program reaches; a step of a release
	@bash scripts/vulncheck

clean: ## remove what build, cover and the releases wrote
	rm -f windlass windlass.exe coverage.out coverage.html
	rm -rf bin/release dist
