# Everything works on a fresh clone with nothing but Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.installed-demo
TEST := $(VENV)/.installed-test

# Workers and the daemons that tests start import the same files again and again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test worlds bench pictures servers check format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV):
	@echo "==> creating $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml monitor/__init__.py | $(VENV)
	@echo "==> installing dataprep-monitor with the demo's broker into $(VENV); the first time takes a minute"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(TEST): pyproject.toml monitor/__init__.py | $(VENV)
	@echo "==> installing dataprep-monitor with what the tests need into $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(DEMO)

demo: $(DEMO) ## run everything on this machine: sandbox, broker, daemon, page
	$(BIN)/dataprep-monitor demo $(ARGS)

servers: ## install the servers that the tests drive
	@tests/install-servers

check: $(TEST) ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(TEST) servers check ## the whole suite against real servers
	$(BIN)/pytest $(ARGS)

worlds: $(TEST) servers ## play scripted worlds: WORLDS=2000 SEED=100, ARGS="--only 7"
	$(BIN)/python -m tests.worlds --seed $(or $(SEED),0) --worlds $(or $(WORLDS),100) $(ARGS)

bench: $(TEST) servers ## measure against the simplest thing that could work; takes 15 minutes
	$(BIN)/python -m tests.bench $(ARGS)

pictures: $(TEST) servers ## take the pictures of README from the demo; takes 3 minutes
	$(BIN)/python -m tests.browser.pictures

format: $(TEST) ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
