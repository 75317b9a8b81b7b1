# Two commands on a machine with only Python 3.11, git and make:
#   make quickstart   set up, train Reptile and Eigen-Reptile on sine waves and glyphs, write a report
#   make test         set up, check style and types, run the tests

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: quickstart test docs siege clean

quickstart: .venv/installed
	$(BIN)/eigen-reptile quickstart

test: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup

# Tables, figures and verdicts in docs/ and README.md, from the committed files of results and benchmarks.
docs: .venv/installed
	$(BIN)/eigen-reptile report results --out docs --insert README.md docs/algorithm.md docs/audit.md docs/methods.md docs/reliability.md docs/trust.md \
		--benchmarks benchmarks

# Kills, faults, damaged and hostile files, for some minutes or for as long as asked: make siege MINUTES=600
MINUTES ?= 7
SEED ?= 0
siege: .venv/installed-dev
	$(BIN)/python -m siege --minutes $(MINUTES) --seed $(SEED) --out benchmarks/siege.json

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv
