# Everything a newcomer needs. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run demo install test proof prove mutants check format docs lock bench bench-cloud bench-fleet clean

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check
# The Functions Framework pins older versions of what we use, so what is tested with it has an environment of its own.
FUNCTIONS := .venv-functions
# The newest Python on the PATH that is new enough; PYTHON=… overrides.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.embedded ## serve on 127.0.0.1:8080 with the embedded store in var/millpond.db (PORT, HOST, STORE)
	@exec $(BIN)/millpond serve

demo: $(VENV)/.embedded ## the same on a lively made-up feed in var/demo.db, every document checked live (PORT, HOST, STORE)
	@exec $(BIN)/millpond demo

install: $(VENV)/.installed ## set up .venv with everything (instant when nothing changed)

# One environment, two stamps. `make run` installs what the embedded server needs and never removes anything. Without
# bytecode: Python compiles what a command imports when it first does, and compiling all of it takes five seconds.
$(VENV)/.embedded: pyproject.toml requirements.embedded.lock
	@test -n "$(PYTHON)" || { echo "Millpond needs Python 3.11 or newer; found $$(python3 --version 2>&1). Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Millpond needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@echo "Installing what the embedded server needs into $(VENV) (about 20 seconds the first time) ..."
	@test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) --no-compile --require-hashes -r requirements.embedded.lock
	@$(PIP_INSTALL) --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

# `make install` adds the rest. If it did so before and a lock has changed since, the environment is made anew: a package
# that the new lock no longer has would stay, and hide that it is missing.
$(VENV)/.installed: $(VENV)/.embedded requirements.lock
	@echo "Adding what developers and Google Cloud need to $(VENV) (about a minute the first time) ..."
	@test ! -e $@ || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.embedded $@

# What an editable install would leave there is one line, and needs a build backend that this lock has not.
$(FUNCTIONS)/.installed: requirements.functions.lock | $(VENV)/.installed
	@echo "Installing into $(FUNCTIONS) (about a minute the first time) ..."
	@$(BIN)/python -m venv --clear $(FUNCTIONS)
	@$(FUNCTIONS)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.functions.lock
	@echo "$(CURDIR)/src" > "$$($(FUNCTIONS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/millpond.pth"
	@touch $@

test: check $(FUNCTIONS)/.installed ## every fast test, after ruff and mypy
	$(BIN)/pytest -n 4

proof: install ## 2,000 simulated worlds, every planted bug, 100 killed servers, 20,000 mutated requests, memory under attack
	$(BIN)/python -m proof

prove: install ## ten times as much, for an evening
	$(BIN)/python -m proof --times 10

mutants: install ## plant each bug of proof/mutants and see it caught, by the simulation or by tests
	$(BIN)/python -m proof.mutants --shrink

check: install ## ruff, mypy --strict and terraform fmt
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if command -v terraform > /dev/null; then \
		echo "terraform fmt -check -recursive infra/terraform" && terraform fmt -check -diff -recursive infra/terraform; \
	elif [ -n "$$CI$$MILLPOND_REQUIRE_EMULATORS" ]; then \
		echo "terraform is missing: terraform fmt -check could not run" >&2; exit 1; \
	else \
		echo "skipped: terraform fmt -check, because terraform is not installed"; \
	fi

format: install ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Without the theme's note about a later version of mkdocs, which is no fault of the pages.
docs: install ## build the documentation into site/, every link checked; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# All of it for developers, what a server needs on Google Cloud, as a function and with the embedded store, and what
# builds the wheel: the same versions in each. An editable install needs the build backend too.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: ## resolve the dependencies anew (needs uv)
	$(LOCK) --extra gcp --extra charts --extra docs --extra dev --output-file requirements.lock pyproject.toml
	$(LOCK) --extra gcp --extra charts --constraint requirements.lock --output-file requirements.run.lock pyproject.toml
	$(LOCK) --extra gcp --extra charts --extra functions --constraint requirements.lock --output-file requirements.functions.lock pyproject.toml
	printf 'hatchling\neditables\n' | $(LOCK) --constraint requirements.lock --output-file requirements.embedded.lock pyproject.toml -
	echo hatchling | $(LOCK) --constraint requirements.lock --output-file requirements.build.lock -

bench: install ## measure the durable path against an empty handler and write docs/benchmarks.md (needs wrk)
	$(BIN)/python benchmarks/bench.py

bench-cloud: install ## measure Millpond on the Firestore emulator against a textbook consumer, into docs/benchmarks.md
	$(BIN)/python benchmarks/cloud.py

bench-fleet: install ## measure several instances on the Firestore emulator and in virtual time, into docs/scaling.md
	$(BIN)/python benchmarks/fleet.py

clean: ## remove what was installed and built (never var/, which holds data)
	rm -rf $(VENV) $(FUNCTIONS) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
