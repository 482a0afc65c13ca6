# Everything runs in .venv; `make demo` and `make test` create it when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.installed-demo

.PHONY: demo test all lint types imports layers docs results pytest slow bench wheel clean

# compiled once when first imported, not all of it now; so nothing may keep Python from writing what it compiled
unexport PYTHONDONTWRITEBYTECODE
INSTALL = $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt

# pip of today chooses versions in half the time of the one that Python 3.11 brings, which does too
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet --upgrade pip

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[dev]"
	touch $(DEMO) $(STAMP)

$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[bo,plots]"
	touch $(DEMO)

demo: $(DEMO)
	$(BIN)/codesign compile explore
	$(BIN)/codesign explore --network resnet50 --space scratchpad --optimizer mobo --trials 40 \
	  --objectives latency energy area --constraint "power_w<=2" --seed 0 --workers 2 --out runs/demo

# tests begin beside types and pages, so that no core waits for another
test: lint imports
	$(MAKE) --no-print-directory -j 3 types docs pytest

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

layers: imports
	$(BIN)/pytest -q tests/unit/test_layers.py

docs: $(STAMP)
	DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# tables of docs/results from docs/results/data
results: $(STAMP)
	$(BIN)/python -m experiments.render_results

pytest: $(STAMP)
	$(BIN)/pytest -q -n 2

# make slow KIND=oracle (or service, speed): one kind of the slow tests; laws are tried on all their examples
KIND ?= slow
slow all: export CODESIGN_ALL_EXAMPLES := 1
slow: $(STAMP)
	$(BIN)/pytest -q -m $(KIND)
	$(if $(filter slow oracle,$(KIND)),$(BIN)/pytest -q tests/property tests/oracle/test_event_engine.py)

# everything, with every extra and nothing skipped; says first what is missing (PostgreSQL, a browser ...)
all: $(STAMP) lint types layers docs
	$(INSTALL) -e ".[dev,all]"
	$(BIN)/python -m tests.needed
	$(BIN)/pytest -q --complete -n 2 -m "not service and not speed"
	$(BIN)/pytest -q --complete -m "service or speed"

bench: $(STAMP)
	$(BIN)/python -m experiments.bench

# a wheel that carries its kernels compiled, for x86-64 processors of the last ten years and this version of Python
PREBUILT := codesign/core/compiler/prebuilt
ABI = $(shell $(BIN)/python -c "import sys; print('cp%d%d' % sys.version_info[:2])")
wheel: $(STAMP)
	rm -rf $(PREBUILT) dist build
	$(BIN)/codesign compile --portable $(PREBUILT)
	$(BIN)/python -m build --wheel
	rm -rf $(PREBUILT) build
	$(BIN)/python -m wheel tags --remove --python-tag $(ABI) --abi-tag $(ABI) --platform-tag manylinux_2_17_x86_64 dist/*.whl

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
