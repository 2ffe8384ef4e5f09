# Every target works as the first command after `git clone`; the environment is made once, and again when its inputs change.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export FEED_ASSETS_BASE ?= $(CURDIR)/data
export DAGSTER_HOME ?= $(CURDIR)
PORT ?= 3000

.PHONY: help demo dev test lint bench format clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "feed_assets needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (once; again only when pyproject.toml or constraints.txt change) ..." >&2
	@if command -v uv >/dev/null 2>&1; then \
	    { test -x $(BIN)/python || uv venv --quiet --python "$$(command -v $(PYTHON))" $(VENV); } && \
	    uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'; \
	else \
	    { test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV); } && \
	    PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'; \
	fi
	@touch $(READY)

demo: $(READY) ## the main job on real logs, told step by step
	@$(BIN)/feed-assets demo

dev: $(READY) ## the Dagster UI with everything in it, sensors running
	@mkdir -p "$$DAGSTER_HOME"
	@echo "Dagster UI: http://127.0.0.1:$(PORT). Here: what runs do, and errors; what sensors decide is in the UI. Ctrl-C ends it." >&2
# At a lower level the daemon has two lines for each sensor in each tick. `dg dev` is another package's name for this.
	@PYTHONWARNINGS='ignore:Function `dev_command` is superseded' $(BIN)/dagster dev --host 127.0.0.1 --port $(PORT) --log-level warning

test: $(READY) ## all tests
	$(BIN)/python -m pytest

lint: $(READY) ## ruff, mypy, import rules, Dagster definitions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/dagster definitions validate

bench: $(READY) ## side-by-side measurements; prints a table, writes JSON
	$(BIN)/python -m feed_assets_tests.benchmarks

format: $(READY) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment, not the data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
