# Everything works on a fresh clone with nothing but Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.installed-demo
TEST := $(VENV)/.installed-test
# The tools for the supply chain stand apart from what they judge.
TOOLS := build/tools
EXTRAS := --extra calendars --extra notify --extra oidc --extra postgres
# For every supported Python and platform; a version stays as it is until ARGS=--upgrade.
LOCK := $(TOOLS)/bin/uv --no-config pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes

# Workers and the daemons that tests start import the same files again and again.
unexport PYTHONDONTWRITEBYTECODE

# Pure rules, and the rooms that need no more than files and a port.
QUICK := $(filter-out %_server.py,$(wildcard tests/test_*.py)) $(addprefix tests/,model catalogue schedules config listening \
	workspace tracking callbacks alerting)

.PHONY: help demo lock sbom audit quick test compiled soak soak-tests soak-worlds soak-clusters worlds bench pictures servers check format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV):
	@echo "==> creating $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml monitor/__init__.py | $(VENV)
	@echo "==> installing dataprep-monitor with the demo's broker into $(VENV); the first time takes a minute"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[demo]'
	@touch $@

# The tests judge the versions that are deployed, byte by byte.
$(TEST): pyproject.toml requirements-test.lock requirements-build.lock monitor/__init__.py | $(VENV)
	@echo "==> installing dataprep-monitor with what the tests need into $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-test.lock -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(DEMO)

$(TOOLS): Makefile
	$(PYTHON) -m venv --clear $@
	$@/bin/pip install --quiet --disable-pip-version-check 'uv>=0.13.9,<0.14' 'cyclonedx-bom>=7,<8' 'pip-audit>=2.9,<3'
	@touch $@

lock: $(TOOLS) ## resolve the locks after a change of pyproject.toml; newer versions with ARGS=--upgrade
	$(LOCK) $(ARGS) pyproject.toml $(EXTRAS) -o requirements.lock
	$(LOCK) $(ARGS) --group build -c requirements.lock -o requirements-build.lock
	$(LOCK) $(ARGS) pyproject.toml --extra test -c requirements.lock -c requirements-build.lock -o requirements-test.lock

# Holds what the lock names, and nothing else: no pip either.
build/locked: requirements.lock | $(TOOLS)
	$(PYTHON) -m venv --clear --without-pip $@
	$(TOOLS)/bin/pip --python $@/bin/python install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

sbom: build/locked ## write dist/sbom.cdx.json (CycloneDX) and dist/licences.csv of what a daemon runs on
	@mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment build/locked/bin/python --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json
	$(PYTHON) -m tests.deploy.licences dist/sbom.cdx.json dist/licences.csv

audit: $(TOOLS) ## ask two databases for known weaknesses of what the lock names; says what they do not answer
	$(PYTHON) -m tests.deploy.advisories $(TOOLS)/bin/pip-audit requirements.lock

demo: $(DEMO) ## run everything on this machine: sandbox, broker, daemon, page
	$(BIN)/dataprep-monitor demo $(ARGS)

servers: ## install the servers that the tests drive
	@tests/install-servers

check: $(TEST) ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

quick: $(TEST) ## pure rules and rooms; takes a minute and a half
	$(BIN)/pytest $(QUICK) $(ARGS)

test: $(TEST) servers ## everything that decides about a change; takes twelve minutes
	$(MAKE) --jobs 2 --output-sync check compiled
	$(BIN)/pytest $(ARGS)

# All workers begin with all test files at once; on a fresh clone each would compile all of them.
compiled: $(TEST)
	@$(BIN)/pytest $(ARGS) --collect-only --quiet -n 0 | tail -n 1

soak: ## what takes hours: long episodes, many examples, 2,000 worlds, clusters, benchmarks
	$(MAKE) --keep-going soak-tests soak-worlds soak-clusters bench

soak-tests: $(TEST) servers
	$(BIN)/pytest -m 'soak or hypothesis' --hypothesis-profile soak --timeout 3600 $(ARGS)

soak-worlds: $(TEST) servers
	$(BIN)/python -m tests.worlds --seed 100 --worlds 2000
	$(BIN)/python -m tests.worlds --seed 2100 --worlds 200 --postgres

soak-clusters: $(TEST) servers
	$(BIN)/python -m tests.crash.cluster --minutes 30 --seed 100

worlds: $(TEST) servers ## play scripted worlds: WORLDS=2000 SEED=100, ARGS="--only 7"
	$(BIN)/python -m tests.worlds --seed $(or $(SEED),0) --worlds $(or $(WORLDS),100) $(ARGS)

bench: $(TEST) servers ## measure against the simplest thing that could work; takes 25 minutes
	$(BIN)/python -m tests.bench $(ARGS)

pictures: $(TEST) servers ## take the pictures of README from the demo; takes 3 minutes
	$(BIN)/python -m tests.browser.pictures

format: $(TEST) ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
