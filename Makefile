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
cluster: PORT = 7077

.PHONY: help demo dev s3 cluster docs quick test chaos ferrokinesis late lint bench audit hashes format clean

help: ## show this list
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "feed_assets needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (once; again only when pyproject.toml or constraints.txt change): about 700 MB of packages, and half a minute for Spark's classes ..." >&2
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) >&2
	@# uv takes half of pip's time, but it does not know pip's settings, such as a mirror.
	@{ $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt uv && \
	    $(BIN)/uv pip install --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable '.[dev]' || \
	    PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --disable-pip-version-check --editable '.[dev]'; } >&2
	@$(BIN)/feed-assets prepare >/dev/null 2>&1 || true  # not every Java can
	@touch $(READY)

demo: $(READY) ## the main job on real logs, told step by step; BASE=s3://bucket/prefix puts its data elsewhere
	@$(ENVIRONMENT) $(BIN)/feed-assets demo

dev: $(READY) ## the Dagster UI with everything in it, sensors running; BASE as above
	@$(ENVIRONMENT) $(BIN)/feed-assets dev --port $(PORT)

s3: $(READY) ## an S3 server on 127.0.0.1 (PORT=7480) until Ctrl-C; its data stays in .s3/
	@exec $(BIN)/python -m feed_assets_tests.servers s3 $(PORT)

cluster: $(READY) ## a Spark master on 127.0.0.1 (PORT=7077) and two workers until Ctrl-C
	@exec $(BIN)/python -m feed_assets_tests.servers cluster $(PORT)

docs: $(READY) ## build the documentation into build/docs; generated pages are written anew
	@$(BIN)/python -m feed_assets_tests.reference
	@$(BIN)/zensical build --strict >/dev/null
	@echo "To read it: $(BIN)/python -m http.server --directory build/docs --bind 127.0.0.1 8000"

# Hundreds of processes load the package: each would compile it again where Python is told to keep no compiled modules.
quick test: export PYTHONDONTWRITEBYTECODE =
quick: $(READY) ## the tests without Spark, servers and long waits, in two processes; for each change
	$(BIN)/python -m pytest --quick --quiet -r fE --numprocesses 2 --dist loadgroup --no-loadscope-reorder

test: $(READY) ## all tests, in four processes
	$(BIN)/python -m pytest --numprocesses 4 --dist loadgroup --no-loadscope-reorder

chaos: $(READY) ## 1,000 kills of writers, readers and retention, on a disk and on S3 with faults; 2,000 each of receiver, polls, loads, monitor, workflow; 1,000 of consumers; a delivery of 10 million rows
	@$(BIN)/python -m feed_assets_tests.chaos
	@$(BIN)/python -m feed_assets_tests.receiving.kills
	@$(BIN)/python -m feed_assets_tests.polling.poll_kills
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/python -m feed_assets_tests.warehouse.killing "$$folder/base" "duckdb:///$$folder/warehouse.db" 2000
	@$(BIN)/python -m feed_assets_tests.notices.monitor_kills 2000
	@$(BIN)/python -m feed_assets_tests.workflow.kills --rounds 1000
	@! $(BIN)/python -m feed_assets_tests.workflow.kills --rounds 500 --base disk --broken "no lease check"
	@$(BIN)/python -m feed_assets_tests.delivery.consuming.kills --rounds 500
	@$(BIN)/python -m feed_assets_tests.spark_delivery.large --rows 10000000

# A second server of Kinesis beside the judge. Once it is built, `make test` runs its tests, too.
SECOND_OPINION := feed_assets_tests/delivery/streams/test_second_opinion.py
ferrokinesis: $(READY) ## build a second server of Kinesis once, in 2 min or more, and test deliveries on it; needs Rust
	@echo "Building ferrokinesis, unless it is there ..." >&2
	@$(BIN)/python -m feed_assets_tests.servers.ferrokinesis
	$(BIN)/python -m pytest $(SECOND_OPINION)

late: $(READY) ## 10,000 random histories of late data
	@$(BIN)/python -m feed_assets_tests.late_data.late_histories 10000

lint: $(READY) ## ruff, mypy, import rules, Dagster definitions, documentation
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@out=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$out"; exit 1; }
	@out=$$($(BIN)/dagster definitions validate 2>&1) || { echo "$$out"; exit 1; }
	@$(BIN)/python -m feed_assets_tests.reference --check
	@out=$$($(BIN)/zensical build --strict 2>&1) || { echo "$$out"; exit 1; }
	@echo "Style, types, imports, definitions and documentation are in order."

bench: $(READY) ## side-by-side measurements; prints a table, writes JSON
	@$(BIN)/python -m feed_assets_tests.benchmarks

# A tool of its own environment: its packages are none of ours.
TOOLS := $(VENV)/tools
$(TOOLS)/.ready:
	@$(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	@touch $@

audit: $(READY) $(TOOLS)/.ready ## known vulnerabilities of all pinned packages, by PyPI's service; fails if that does not answer
	@$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps --progress-spinner off --requirement constraints.txt || \
	    { echo "A package has a known vulnerability, or the service did not answer for it: see above." >&2; exit 1; }

hashes: $(READY) ## write the container's packages with their hashes into deploy/requirements.txt
	@$(BIN)/uv pip compile --quiet --upgrade --extra delivery --extra poll --extra postgres --constraint constraints.txt --generate-hashes \
	    --python-version 3.11 --python-platform linux --no-header --no-annotate --no-emit-index-url \
	    --output-file deploy/requirements.txt pyproject.toml

format: $(READY) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment, not the data
	rm -rf $(VENV) build/docs .cache .mypy_cache .ruff_cache .pytest_cache
