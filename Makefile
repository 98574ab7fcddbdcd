# Everything is run from here. `make` alone lists what there is.
#
# Three environments keep themselves up to date: .venv (run, then test tools on top), .venv-bench and
# .venv-oldest. A hidden stamp file in each says what was installed; it is redone when its lock file changes.

PYTHON ?= python3
LOCK_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-thorough test-sb3 test-ray test-release test-oldest test-kernels hops census check coverage docs \
	bench bench-short bars soak fuzz attack mutate dist lock clean

# Packages come from .venv alone, whatever the caller's shell adds.
unexport PYTHONPATH

# Third parties' deprecations of that time are theirs; Taxi-v4 and CliffWalking-v1 came with a later Gymnasium.
OLDEST_TESTS = -W ignore::DeprecationWarning -k "not Taxi and not CliffWalking" \
	tests/test_mdp.py tests/test_coverage.py tests/test_occupancy.py tests/test_oracles.py \
	tests/test_linear_program.py tests/test_weights.py tests/test_structure.py tests/test_files.py \
	tests/test_cli.py tests/test_doctor.py tests/formats tests/planning/test_factorisation.py \
	tests/planning/test_reference_values.py tests/exploring/test_simulator.py \
	tests/exploring/test_survival.py tests/collecting/test_collect.py tests/environments/test_minari_files.py \
	tests/datasets/test_minari_audit.py tests/datasets/test_reading_data.py

# What computes is repeated with the last bits of other processors, and what waits for other processes beside
# other work: make test-kernels. Statistical tests are left out: other bits are other luck to them, and each says
# how rarely it may fail; and so are those that compare one way of ours with another, because both have the same
# bits. OPENBLAS_CORETYPE=Haswell make test test-thorough repeats everything.
NUMERICAL_TESTS = tests/planning tests/chains \
	tests/test_coverage.py tests/test_coverage_derivatives.py tests/test_occupancy.py tests/test_occupancy_checks.py \
	tests/test_oracles.py tests/test_oracle_parts.py tests/test_oracle_sweeps.py tests/test_linear_program.py \
	tests/test_lemmas.py tests/test_weights.py tests/test_structure.py \
	tests/exploring/test_simulator.py tests/test_project.py::test_everything_in_a_page_runs \
	tests/test_project.py::test_docstring_examples_run
WAITING_TESTS = tests/exploring/test_survival.py tests/experiments/test_pool.py tests/report/test_page_in_browser.py \
	tests/benchmarks/test_planner_peers.py

CHECKS = ".venv/bin/ruff check ." ".venv/bin/ruff format --check ." ".venv/bin/pyright --pythonpath .venv/bin/python"
PYTEST = .venv/bin/python -m pytest -n 2 --dist worksteal
INSTALL = -m pip --disable-pip-version-check install --quiet

help:  ## print this list
	@echo "usage: make <target>  [PYTHON=python3.11]"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s  %s\n", $$1, $$2 }' Makefile

demo: .venv/.run  ## run the demonstration and write it to out/demo
	rm -rf out/demo
	.venv/bin/rhocover demo --out out/demo

test: .venv/.test  ## run every check, and one set of parameters of every test: four minutes on two cores
	@.venv/bin/python tools/timed.py $(CHECKS) "$(PYTEST) -m 'not thorough'"

test-all: test test-thorough test-sb3 test-ray test-release test-oldest test-kernels  ## run those, and the next six

test-thorough: .venv/.test  ## run the rest: whole grids, junk calls, damaged files, broken disks, second methods
	$(PYTEST) -m thorough

test-sb3: .venv/.sb3  ## run only the tests that need torch: installs its CPU build and Stable-Baselines3
	.venv/bin/python -m pytest tests/sb3

test-ray: .venv/.ray  ## run only the tests that need Ray, in a network of their own: installs it
	.venv/bin/python -m pytest tests/cluster

test-release: .venv/.test  ## build archive and wheel, install each into an empty environment, use it
	.venv/bin/python -m tools.release.rehearse

test-oldest: .venv-oldest/.run  ## run the tests of the core with the lowest versions that are allowed
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-oldest/numba .venv-oldest/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider $(OLDEST_TESTS)

test-kernels: .venv/.test  ## repeat what computes as other processors would, and what waits beside other work
	.venv/bin/python tests/kernels --numerical $(NUMERICAL_TESTS) --waiting $(WAITING_TESTS)

hops: .venv/.test  ## count the files that three calls go through
	.venv/bin/python tools/hops.py

census: .venv/.test  ## count files, lines, long signatures, and names that several classes have
	.venv/bin/python tools/census.py

check: .venv/.test  ## run the linter, the formatter and the type checker
	@.venv/bin/python tools/timed.py $(CHECKS)

coverage: .venv/.test  ## run the tests and print which lines and branches of src they miss
	$(PYTEST) --cov=rhocover --cov-branch --cov-report=term:skip-covered --cov-fail-under=95

docs: .venv/.sb3  ## build the documentation into out/docs, tutorials executed
	.venv/bin/python -m sphinx -q -W --keep-going -a -b html docs out/docs
	@echo "open out/docs/index.html"

atari: .venv/.test  ## install ale-py (GPL), execute the tutorial that uses it, store its results
	.venv/bin/python $(INSTALL) --no-deps ale-py==0.12.1
	.venv/bin/python docs/_ext/stored_results.py tutorials/montezuma.md

bench: .venv-bench/.run  ## compare with the other libraries on this machine; rewrites docs/benchmarks.md
	.venv-bench/bin/python -m benchmarks peers

bench-short: .venv-bench/.run  ## run the same code on small sizes, in a minute or two; writes to out only
	.venv-bench/bin/python -m benchmarks peers --short

bars: .venv-bench/.run  ## run the benchmarks that say whether each bar is held or missed
	.venv-bench/bin/python -m tools.bars

soak: .venv/.test  ## run 10^9 simulated steps and 10^4 plans, and watch the memory
	.venv/bin/python -m benchmarks.soak

fuzz: .venv/.test  ## damage files with new seeds for ten minutes
	.venv/bin/python tests/fuzz --minutes 10

attack: .venv/.test  ## kill, break, race and feed everything with new seeds for ten minutes; a table at the end
	.venv/bin/python tests/attack --minutes 10

mutate: .venv/.test  ## change the numerical core in random places, see which changes no test notices
	.venv/bin/python -m tools.mutation

dist: .venv/.test  ## build archive, wheel, licence list and bill of materials into dist, the same bytes from the same commit
	.venv/bin/python -m tools.release.build
	.venv/bin/python -m tools.release.licences dist
	.venv/bin/python -m tools.release.sbom dist

clean:  ## remove the environments, the caches and the demonstration
	rm -rf .venv .venv-bench .venv-oldest .venv-lock out/demo out/docs out/docs-cache build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

# Environments.

.venv/.made .venv-bench/.made .venv-oldest/.made .venv-lock/.made:
	@command -v "$(PYTHON)" > /dev/null || \
	  { echo "There is no $(PYTHON). Name a Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rhocover needs Python 3.11 or newer; $(PYTHON) is older. Try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	"$(PYTHON)" -m venv --clear $(@D)
	@touch $@

# A lock names every package that is needed, so nothing is resolved: pip would ask for the newest release of a
# package that another one wants with an extra, and find no hash for it.

.venv/.run: requirements/run.txt
.venv-bench/.run: requirements/bench.txt
.venv-oldest/.run: requirements/oldest.txt
.venv/.run .venv-bench/.run .venv-oldest/.run: %/.run: %/.made pyproject.toml src/rhocover/_version.py
	$*/bin/python $(INSTALL) --require-hashes --no-deps -r $(filter requirements/%,$^)
	$*/bin/python $(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.test: requirements/test.txt .venv/.run
	.venv/bin/python $(INSTALL) --require-hashes --no-deps -r requirements/test.txt
	@touch $@

.venv/.ray: requirements/ray.txt .venv/.test
	.venv/bin/python $(INSTALL) --require-hashes --no-deps -r requirements/ray.txt
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
	$(COMPILE) --extra bench --extra fast --extra minari --extra parquet -c requirements/run.txt -o requirements/bench.txt pyproject.toml
	rm -rf .venv-lock/sb3
	.venv-lock/bin/python -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: \
	  -d .venv-lock/sb3 "stable-baselines3>=2.5" cloudpickle
	.venv-lock/bin/python requirements/pin.py .venv-lock/sb3 > requirements/sb3.txt
	.venv-lock/bin/python $(INSTALL) uv==0.13.7
	.venv-lock/bin/uv pip compile --quiet pyproject.toml --extra ray -c requirements/test.txt --python-version 3.11 \
	  --generate-hashes --only-binary :all: --no-emit-index-url --custom-compile-command "make lock" \
	  -o requirements/ray.txt
	.venv-lock/bin/python requirements/oldest.py | .venv-lock/bin/uv pip compile --quiet - \
	  --resolution lowest-direct --python-version 3.11 --generate-hashes --only-binary :all: --no-annotate \
	  --no-emit-index-url --custom-compile-command "make lock" -o requirements/oldest.txt
