# Everything runs in .venv; `make demo` and `make test` create it when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types layers docs pytest slow bench wheel clean

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/codesign explore --network resnet50 --space scratchpad --optimizer mobo --trials 40 \
	  --objectives latency energy area --constraint "power_w<=2" --seed 0 --workers 2 --out runs/demo

test: lint types layers docs pytest

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/unit/test_layers.py

docs: $(STAMP)
	DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pytest: $(STAMP)
	$(BIN)/pytest -q -n 2

slow: $(STAMP)
	$(BIN)/pytest -q -m slow

bench: $(STAMP)
	$(BIN)/python -m experiments.bench

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
