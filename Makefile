# `make demo` and `make test` do all the set-up they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
FEDERATION := tests/end_to_end/federation
# A file stays with one worker, as its tests share what is slow to make.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
PORTABLE := tests/end_to_end/test_other_processors.py

.PHONY: test-hostile test-faults campaign-record setup-locked lock lock-check audit-dependencies
.PHONY: help setup demo check test test-portable test-federation docs reproduce bench clean

help:
	@echo "make demo    five generated banks, from their tables to what federating them was worth"
	@echo "make test    lint, types, import contracts, tests"
	@echo "make test-portable   the numeric tests as on other processors"
	@echo "make test-federation   server and silos as real processes, and what happens when they die"
	@echo "make test-hostile   a million fuzzed inputs, 10,000 seeds of faults, a hundred kill -9; resumes"
	@echo "make test-faults   its seeds of lost messages, killed parties, full and damaged disks alone"
	@echo "make campaign-record   writes what was tried into docs/deployment.md"
	@echo "make setup-locked   install the exact versions of requirements/, by hash"
	@echo "make lock, make lock-check   write these lists anew; check them against the index"
	@echo "make audit-dependencies   has a locked version a known vulnerability?"
	@echo "make docs    rebuild tables and figures of README, docs and study from stored records"
	@echo "make reproduce   run whatever the study of the paper still lacks; can be stopped and resumed"
	@echo "make bench   speed and memory, as ratios measured in one run"

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml study/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable study
	touch $@

# The versions and files of requirements/development.txt, and no others.
setup-locked:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/development.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable study
	touch $(INSTALLED) .venv/.simulation

lock: setup
	$(BIN)/python requirements/lock.py write

lock-check: setup
	$(BIN)/python requirements/lock.py check

# An environment of its own, so that what is audited is not changed by the auditor.
audit-dependencies: .venv/audit/.installed
	.venv/audit/bin/python requirements/lock.py audit $(if $(DATABASE),--database $(DATABASE))

.venv/audit/.installed:
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet 'pip-audit>=2.9,<3'
	touch $@

demo: setup
	rm -rf runs/demo
	$(BIN)/feddep data make payments --banks 5 --accounts 10000 --out runs/demo/banks
	$(BIN)/feddep check runs/demo/banks/bank-0
	$(BIN)/feddep run --silos runs/demo/banks/bank-0 runs/demo/banks/bank-1 runs/demo/banks/bank-2 runs/demo/banks/bank-3 runs/demo/banks/bank-4 --method feddep-linked --rounds 50 --out runs/demo/run
	$(BIN)/feddep value runs/demo/run

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest $(PARALLEL) --ignore $(FEDERATION) --ignore $(PORTABLE) --cov --cov-report=term:skip-covered --cov-fail-under=90

# The numeric tests once more for each set of instructions, as on other processors.
test-portable: setup
	$(BIN)/pytest $(PORTABLE) --durations=0 -n 2

# Campaigns take hours, can be stopped and go on; tests/hostile/record.json counts what was tried,
# and a case that fails is run again by its seed: PYTHONPATH=tests python -m hostile inputs graphs 17
CAMPAIGN := OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m hostile

test-hostile: setup
	$(CAMPAIGN)

test-faults: setup
	$(CAMPAIGN) faults

# What was tried, as a table in docs/deployment.md.
campaign-record: setup
	PYTHONPATH=tests $(BIN)/python -m hostile.table

# Much of it is waiting, for processes to start and for heartbeats to stop.
test-federation: setup .venv/.simulation
	$(BIN)/pytest $(FEDERATION) -v --durations=0 $(PARALLEL)

.venv/.simulation: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[flower-sim]'
	touch $@

docs: setup
	$(BIN)/feddep-study documents

reproduce: setup
	$(BIN)/feddep-study reproduce all

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv runs build dist src/*.egg-info study/*.egg-info
