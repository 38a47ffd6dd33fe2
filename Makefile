# make demo   accept this very machine as a CPU rehearsal      make test   every test that this machine can run
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch for tests: the version that the demo and the lab pin; set TORCH_INDEX to a CPU index where pip would take CUDA's.
TORCH ?= 2.13.0
TORCH_INDEX ?=
DEMO_ARGS = $(if $(TORCH_INDEX),-e gpuburn_torch_index=$(TORCH_INDEX))

.PHONY: demo test lint bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.controller
	$(BIN)/ansible-playbook accept.yml -l demo $(DEMO_ARGS)

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "gpuburn needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.controller: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check 'setuptools>=77' wheel
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[controller]'
	touch $@

$(VENV)/.dev: $(VENV)/.controller
	$(BIN)/pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) 'torch==$(TORCH)' numpy
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[dev]'
	touch $@

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ansible-lint --offline

# Two processes: one has all tests that run playbooks and hosts, the other the rest (tests/conftest.py).
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadscope

bench: $(VENV)/.dev
	$(BIN)/python -m pytest tests/benchmarks/bench_*.py -s

clean:
	rm -rf .demo .cache build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
