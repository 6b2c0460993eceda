# Two commands do everything on a fresh machine with Python 3.11 or newer: `make run` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install
PYTEST = OMP_NUM_THREADS=$(SMART_TEST_THREADS) $(BIN)/pytest -n 2 --dist loadscope
TORCH := $(shell grep '^torch==' requirements.txt)
export SMART_TEST_THREADS ?= 1
unexport PYTHONDONTWRITEBYTECODE # tests start many processes, and each would compile every module again
LOCK := .venv-lock/bin/python -m pip --disable-pip-version-check -q
# what torch brings for CUDA depends on the machine, and so does the suffix of a build without it
FREEZE := $(LOCK) freeze --exclude smart-calibration | sed 's/+cpu$$//' | grep -vE '^(cuda|nvidia|triton)'

.DEFAULT_GOAL := help
.PHONY: help run test check test-portable bench soak format lint browser docs wheel lock clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

run: .venv/installed ## set up once, then open the dashboard
	$(BIN)/smart dashboard

test: lint browser ## set up once, then every check and every test
	$(PYTEST)

check: lint ## style, types and the fast half of the engine's tests, for daily work
	$(PYTEST) tests/kernels tests/data tests/figures tests/metrics tests/theory tests/calibrators/test_battery.py \
		--ignore tests/data/test_bombs.py --ignore tests/metrics/test_coverage.py --ignore tests/metrics/test_intervals.py

test-portable: .venv/installed-dev ## the numeric tests again, with the instructions of other processors
	$(BIN)/python -m tests.portable $(PORTABLE)

bench: .venv/installed-dev ## speed side by side with other ways; writes the tables of benchmarks/
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.attacks
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.dashboard
	$(BIN)/python -m benchmarks.estimates
	$(BIN)/python -m benchmarks.load

soak: .venv/installed-dev ## an hour: every long test, thousands of broken files, a crowd of sessions
	$(PYTEST) -m long
	SMART_COVERAGE_SETS=500 $(PYTEST) -m "" tests/metrics/test_coverage.py
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

docs: .venv/installed-dev ## the API reference and the guides as a static site, in site/
	$(BIN)/python docs/build.py

wheel: .venv/installed-dev ## the source archive and the wheel, in dist/
	$(BIN)/python -m hatchling build

lock: ## the newest versions that pyproject.toml allows into requirements*.txt; another torch: TORCH=torch==X
	$(PYTHON) -m venv --clear .venv-lock
	$(LOCK) install '$(TORCH)'
	$(LOCK) install .
	(sed -n '/^#/p' requirements.txt; $(FREEZE)) > .venv-lock/run && mv .venv-lock/run requirements.txt
	$(LOCK) install '.[dev]'
	(sed -n '/^[#-]/p' requirements-dev.txt; $(FREEZE) | grep -vxFf requirements.txt) > .venv-lock/dev
	mv .venv-lock/dev requirements-dev.txt
	rm -rf .venv-lock

clean: ## remove the virtual environment and every cache
	rm -rf .venv .venv-lock dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis artifacts

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
