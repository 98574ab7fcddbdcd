# Everything is run from here. `make` alone lists what there is.
#
# Two environments keep themselves up to date: .venv (run, then test tools on top) and .venv-bench.
# A hidden stamp file in each says what was installed; it is redone when its lock file changes.

PYTHON ?= python3
LOCK_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-sb3 check bench lock clean

# Packages come from .venv alone, whatever the caller's shell adds.
unexport PYTHONPATH

INSTALL = -m pip --disable-pip-version-check install --quiet

help:  ## print this list
	@echo "usage: make <target>  [PYTHON=python3.11]"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s  %s\n", $$1, $$2 }' Makefile

demo: .venv/.run  ## run the demonstration and write it to out/demo
	rm -rf out/demo
	.venv/bin/rhocover demo --out out/demo

test: check  ## run every check, and every test but those that need torch
	.venv/bin/python -m pytest -n 2

test-all: test test-sb3  ## run those, too: installs torch (CPU) and Stable-Baselines3

test-sb3: .venv/.sb3  ## run only the tests that need torch
	.venv/bin/python -m pytest tests/sb3

check: .venv/.test  ## run the linter, the formatter and the type checker
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright --pythonpath .venv/bin/python

bench: .venv-bench/.run  ## run the benchmarks beside the other libraries
	.venv-bench/bin/python -m benchmarks

clean:  ## remove the environments, the caches and the demonstration
	rm -rf .venv .venv-bench .venv-lock out/demo build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

# Environments.

.venv/.made .venv-bench/.made .venv-lock/.made:
	@command -v "$(PYTHON)" > /dev/null || \
	  { echo "There is no $(PYTHON). Name a Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rhocover needs Python 3.11 or newer; $(PYTHON) is older. Try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	"$(PYTHON)" -m venv --clear $(@D)
	@touch $@

.venv/.run: requirements/run.txt
.venv-bench/.run: requirements/bench.txt
.venv/.run .venv-bench/.run: %/.run: %/.made pyproject.toml src/rhocover/_version.py
	$*/bin/python $(INSTALL) --require-hashes -r $(filter requirements/%,$^)
	$*/bin/python $(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.test: requirements/test.txt .venv/.run
	.venv/bin/python $(INSTALL) --require-hashes -r requirements/test.txt
	@touch $@

# torch is not in a lock file: its CPU build comes under the same version from other places. What stands on
# top of it is.
.venv/.sb3: requirements/sb3.txt .venv/.test
	.venv/bin/python $(INSTALL) torch==2.13.0
	.venv/bin/python $(INSTALL) --require-hashes --no-deps -r requirements/sb3.txt
	@touch $@

# Lock files: every version and hash, and no word of where they were fetched. Kept pins stay as they are;
# `make lock LOCK_FLAGS=--upgrade` takes the newest. Resolved with the oldest Python that is supported,
# so that the versions exist for all of them.

COMPILE = CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet $(LOCK_FLAGS) \
	--generate-hashes --allow-unsafe --strip-extras --build-deps-for editable \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: .venv-lock/.made  ## resolve pyproject.toml into requirements/*.txt (needs Python 3.11)
	@.venv-lock/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Lock files are made with Python 3.11. Try: make clean && make lock PYTHON=python3.11"; exit 1; }
	.venv-lock/bin/python $(INSTALL) pip-tools==7.6.2
	$(COMPILE) -o requirements/run.txt pyproject.toml
	$(COMPILE) --extra test -c requirements/run.txt -o requirements/test.txt pyproject.toml
	$(COMPILE) --extra bench --extra fast --extra parquet -c requirements/run.txt -o requirements/bench.txt pyproject.toml
	rm -rf .venv-lock/sb3
	.venv-lock/bin/python -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: \
	  -d .venv-lock/sb3 "stable-baselines3>=2.5" cloudpickle
	.venv-lock/bin/python requirements/pin.py .venv-lock/sb3 > requirements/sb3.txt
