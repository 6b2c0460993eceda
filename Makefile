# Two commands do everything on a fresh machine with Python 3.11 or newer: `make run` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install
TORCH := $(shell grep '^torch==' requirements.txt)

.DEFAULT_GOAL := help
.PHONY: help run test bench soak format lint browser clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: .venv/installed ## set up once, then open the dashboard
	$(BIN)/streamlit run dashboard.py

test: lint browser ## set up once, then every check and every test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope

bench: .venv/installed-dev ## speed side by side with other ways; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.attacks
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.dashboard

soak: .venv/installed-dev ## an hour: every long test, thousands of broken files, a crowd of sessions
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope -m long
	$(BIN)/python -m tests.robustness.soak

lint: .venv/installed-dev ## style, formatting and types, nothing changed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: .venv/installed-dev ## mend style and formatting in place
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

browser: .venv/installed-dev ## a Chromium for the browser tests, where none is installed
	@$(BIN)/python -m tests.browser.chromium

clean: ## remove the virtual environment and every cache
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis artifacts

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

# torch alone comes first, so that no other package's range picks another build of it
.venv/installed: requirements.txt pyproject.toml | $(BIN)/python
	$(PIP) $(TORCH)
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -e .
	$(BIN)/python -m smart_core.kernels.compiling
	@touch $@

.venv/installed-dev: requirements-dev.txt .venv/installed
	$(PIP) -r requirements-dev.txt
	@touch $@
