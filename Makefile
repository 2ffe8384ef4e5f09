# Every target works as the first command after `git clone`; the environment is made once, and again when its inputs change.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

PORT ?= 3000

ENVIRONMENT = $(if $(BASE),FEED_ASSETS_BASE='$(BASE)')
s3: PORT = 7480

.PHONY: help demo dev s3 test chaos lint bench format clean

help: ## show this list
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "feed_assets needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (once; again only when pyproject.toml or constraints.txt change): about 700 MB of packages ..." >&2
	@if command -v uv >/dev/null 2>&1; then \
	    { test -x $(BIN)/python || uv venv --quiet --python "$$(command -v $(PYTHON))" $(VENV); } && \
	    uv pip install --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'; \
	else \
	    { test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV); } && \
	    PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --disable-pip-version-check --editable '.[dev]'; \
	fi >&2
	@touch $(READY)

demo: $(READY) ## the main job on real logs, told step by step; BASE=s3://bucket/prefix puts its data elsewhere
	@$(ENVIRONMENT) $(BIN)/feed-assets demo

dev: $(READY) ## the Dagster UI with everything in it, sensors running; BASE as above
	@$(ENVIRONMENT) $(BIN)/feed-assets dev --port $(PORT)

s3: $(READY) ## an S3 server on 127.0.0.1 (PORT=7480) until Ctrl-C; its data stays in .s3/
	@exec $(BIN)/python -m feed_assets_tests.servers $(PORT) .s3

test: $(READY) ## all tests, in two processes
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup --no-loadscope-reorder

chaos: $(READY) ## 1,000 kills of writers, readers and retention, on a disk and on S3 with injected faults
	@$(BIN)/python -m feed_assets_tests.chaos

lint: $(READY) ## ruff, mypy, import rules, Dagster definitions
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@out=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$out"; exit 1; }
	@out=$$($(BIN)/dagster definitions validate 2>&1) || { echo "$$out"; exit 1; }
	@echo "Style, types, imports and definitions are in order."

bench: $(READY) ## side-by-side measurements; prints a table, writes JSON
	@$(BIN)/python -m feed_assets_tests.benchmarks

format: $(READY) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment, not the data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
