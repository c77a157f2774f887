# Two commands do everything: `make quickstart` and `make test`. Both set up what they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread a process: tests start several processes, and timings are never part of them.
export OMP_NUM_THREADS ?= 1

.PHONY: setup test lint quickstart render package clean

setup: $(VENV)/.installed

# The editable install builds the native library; it is made again when its sources or the requirements change.
$(VENV)/.installed: pyproject.toml constraints.txt CMakeLists.txt $(shell find csrc -name '*.cpp' -o -name '*.h')
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A 1-bit and a 32-bit network, trained, packed, run and compared; everything goes to quickstart-out.
quickstart: setup
	$(BIN)/signwise quickstart --out quickstart-out

# All tables, figures and numbers in README and docs, anew from the records in results/.
render: setup
	$(BIN)/signwise reproduce all --budget cpu --no-train
	$(BIN)/python benchmarks/render.py

# An sdist and a wheel, tried in an empty environment.
package: setup
	.ci/check_wheel

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
