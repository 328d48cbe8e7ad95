# On a machine with git, make and CPython 3.11 or later, `make simulate`, `make train` and `make test` do everything, installing
# included.
#   PYTHON=python3.13   the interpreter that the environment is made from
#   VENV=some/folder    where the environment is
#   ARGS="..."          passed on to unojax simulate, to pytest, or names of notebooks

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
# A stamp is newer than pyproject.toml for as long as there is nothing to install.
INSTALLED := $(VENV)/.installed-all
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_DOCS := $(VENV)/.installed-docs
# Twice quiet: errors only.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: simulate train setup test test-all notebooks docs lint format check clean
.DEFAULT_GOAL := simulate

simulate: setup
	@$(BIN)/unojax simulate $(ARGS)

train: setup
	@$(BIN)/python -m training.train_value $(ARGS)

setup: $(INSTALLED)

# Every module, rule and command once.
test: setup
	@$(BIN)/python -m pytest $(ARGS)

# The same, and statistics, further rules, second looks, pages in a browser, whole training runs and notebooks.
test-all: setup
	@$(BIN)/python -m pytest -m "slow or not slow" $(ARGS)

# Runs all notebooks at full size and writes notebooks/*.ipynb; ARGS="01_tour" one of them. UNOJAX_NOTEBOOK_SCALE=0.05 makes it short.
notebooks: setup
	@$(BIN)/python -m notebooks.render $(ARGS)

# Builds the documentation into build/docs, without a network; a warning is an error. ARGS="-E" reads every page again.
docs: $(INSTALLED_DOCS)
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs 4 $(ARGS) -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(INSTALLED_DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test-all

clean:
	rm -rf .venv .cache .hypothesis .pytest_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "unojax needs CPython 3.11 or later, and $(PYTHON) is older or missing." \
			"Name another one: make $(MAKECMDGOALS) PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -f $(BIN)/python*; exit 1; }

$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo "Installing unojax and what it needs into $(VENV) (the first time about a minute and 800 MB) ..."
	@$(PIP_INSTALL) --editable '.[all]'
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	@echo "Installing what builds the documentation into $(VENV) ..."
	@$(PIP_INSTALL) --editable '.[all,docs]'
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@echo "Installing the development tools into $(VENV) ..."
	@$(PIP_INSTALL) --editable '.[all,dev]'
	@touch $@
