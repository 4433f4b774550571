# Two commands do everything: `make run` and `make test`. Both are idempotent.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin

export OMP_NUM_THREADS ?= 1
# Compiled modules are kept: without them every process of Serve compiles torch and all else anew, ten seconds a start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test install lint clean bench

# `make run TOPOLOGY=fused`: one process for a small machine; `TRANSPORT=python`: without HAProxy.
run: $(VENV)/.run
	@$(BIN)/strata up $(if $(TOPOLOGY),--topology $(TOPOLOGY)) $(if $(TRANSPORT),--transport $(TRANSPORT))

test: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tests.servers
	@$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks

lint: $(VENV)/.dev
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix . && $(BIN)/mypy && $(BIN)/lint-imports --no-cache

install: $(VENV)/.dev

# uv installs by linking from one cache: a second environment costs seconds and no disk.
$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Strata needs Python >= 3.11; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q uv

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/uv
	@echo "Installing Strata ..."
	@$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/uv
	@echo "Installing Strata with its tests ..."
	@$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[dev,bench,mysql,postgres,weaviate]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache *.egg-info
