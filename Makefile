# Two commands on a fresh machine: `make demo` and `make test`. Python 3.11+ and pip are all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint coverage fuzz bench docs linkcheck clean

# The package with its command line: all that a first look needs.
$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[cli,hdf5]"
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

demo: $(VENV)/.run
	$(BIN)/orthoplus demo
	@echo "For these commands in your shell: . $(BIN)/activate"

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Lines of src that the tests run, except for the compiled loops.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

# Spoiled files, odd data, kills, threads: minutes. `make fuzz FUZZ="files --seed 5 --tries 500"` for a part.
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/attack.py $(FUZZ)

bench: $(VENV)/.dev
	$(BIN)/orthoplus bench all

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

linkcheck: $(VENV)/.docs
	$(BIN)/python -m sphinx -b linkcheck docs docs/_build/linkcheck

clean:
	rm -rf $(VENV) docs/_build docs/generated docs/auto_examples .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
