# The front door. Every target sets up what it needs first; that takes no time when nothing is
# missing. The work is done by the scripts in tools/, which may be called directly as well.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Where rustup installs, for a shell that was started before it did.
export PATH := $(if $(CARGO_HOME),$(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Arguments for the program started by `make run`, for `cargo test` in `make test`, and for tools/package in `make package`.
ARGS ?=
# The folder with the checkouts of the conformance suites.
SUITES ?=

.PHONY: help setup run node package test lint format bench audit conformance clean

help: ## list the targets
	@echo 'make TARGET, where TARGET is one of'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)$$/\1|\2/p' Makefile | \
		while IFS='|' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

setup: ## install what building, testing and checking need
	@tools/setup all

run: ## show the whole thing: an origin, a node, viewers, live figures (ARGS='--help' for more)
	@tools/setup run
	@cargo run --profile demo -p freshet-cli --bin freshet -- demo $(ARGS)

node: ## build the program for production: no demo, lab and planner in it
	@tools/setup run
	@cargo build --release -p freshet-cli --bin freshet --no-default-features

package: ## make packages: for Debian, an archive, a container image (ARGS='amd64 arm64' for both)
	@tools/package $(ARGS)

test: ## run every test
	@tools/test $(ARGS)

lint: ## check formatting, clippy, documentation, scripts and licences
	@tools/lint

format: ## format the code
	@tools/setup lint
	@cargo fmt --all

bench: ## run the micro-benchmarks
	@tools/setup run
	@cargo bench --workspace $(ARGS)

audit: ## look the dependencies up in the advisory database (needs the network)
	@tools/setup lint
	@cargo deny --all-features check advisories

conformance: ## run the public suites checked out under SUITES=DIR (see bench/conformance/README.md)
	@tools/setup test
	@cargo build --release -p freshet-cli --bin freshet
	@bench/conformance/all "$(SUITES)"

clean: ## remove what was built and fetched
	@rm -rf target .cache
