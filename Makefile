# Every target does its own set-up. `make help` lists them.
SHELL := /bin/bash
PY := .venv/bin/python
COMPILED := PYTHONPATH=build/compiled
# Rooms of the package spark that are tested without a Spark session, and without anything that is compiled.
TABLE_TESTS := $(addprefix tests/spark/,audit damage export ledger_source pipeline places report store tables)
PURE_TESTS := tests/model tests/manager tests/channel tests/amqp tests/ledger tests/damage tests/simulation $(TABLE_TESTS)
SOCKET_TESTS := tests/replication tests/server tests/cli tests/client tests/clients tests/app tests/testing tests/crash tests/faults tests/twophase tests/channels tests/foreign tests/upgrades
SPARK_KILLS := tests/crash/test_spark_kills.py
SPARK_TESTS := $(addprefix tests/spark/,session broker consume data_source exactly_once jobs messages sink tap)
# What depends on Spark's version: sources, streams, tables and sinks in Spark's Python processes, and what SQL makes of them.
SPARK42_TESTS := $(addprefix tests/spark/session/,test_worker.py ledger_source store pipeline/test_pipeline.py audit/test_audit.py) \
  $(addprefix tests/spark/,tap/test_tap.py consume/test_consume.py sink/test_sink.py)
HYPOTHESIS_TESTS := $(PURE_TESTS) tests/server tests/cli tests/client tests/faults tests/twophase
ROUNDS := 10
MINUTES := 180
# The pure tests share nothing, and wait for nothing. Those with sockets wait for each other's answers most of the time,
# and share a module's broker; those of Spark share its session, and plan on one core most of the time. Those that kill
# Spark's processes start so many that each has every core for itself.
EVERY_CORE := -n auto --dist worksteal
EVERY_CORE_BY_FILE := -n auto --dist loadfile
HOT_SOURCES := setup.py pyproject.toml $(shell find src -name '*.py' -o -name '*.c')

# apt-get takes one caller at a time.
.NOTPARALLEL:
.PHONY: help setup packages-of-demo packages-of-test compiled java peers test test-pure test-sockets test-spark test-spark42 check lock bench demo docs dist dist-check release mutants explore fuzz soak clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: .venv/.ready ## create .venv with everything locked in requirements.lock
.venv/.ready: tools/setup.sh requirements.lock
	tools/setup.sh python

# All that a target needs from the system, asked for or installed at once before its long work begins.
packages-of-demo:
	@tools/setup.sh --packages python java

packages-of-test:
	@tools/setup.sh --packages python java peers

java: setup ## find or install Java 17 for Spark
	tools/setup.sh java

peers: setup ## install the foreign clients that the tests use
	tools/setup.sh peers

compiled: build/compiled/.ready ## build the compiled version into build/compiled
build/compiled/.ready: $(HOT_SOURCES) | setup
	tools/compile.sh

test: packages-of-test compiled java peers ## all tests: pure (interpreted, but for the long ones, and compiled), sockets (compiled), Spark
	PYTHONPATH=src $(PY) -m pytest $(EVERY_CORE) -m "not long" $(PURE_TESTS) tests/docs
	$(COMPILED) $(PY) -m pytest $(EVERY_CORE) $(filter-out $(TABLE_TESTS),$(PURE_TESTS))
	$(COMPILED) $(PY) -m pytest $(EVERY_CORE_BY_FILE) --ignore $(SPARK_KILLS) $(SOCKET_TESTS)
	$(COMPILED) $(PY) -m pytest $(EVERY_CORE_BY_FILE) $(SPARK_TESTS)
	$(COMPILED) $(PY) -m pytest $(SPARK_KILLS)

test-pure: setup ## the fast tests, interpreted
	PYTHONPATH=src $(PY) -m pytest $(EVERY_CORE) $(PURE_TESTS)

test-sockets: compiled peers ## real clients over real sockets
	$(COMPILED) $(PY) -m pytest $(SOCKET_TESTS)

test-spark: compiled java ## Spark tests on local[2]
	$(COMPILED) $(PY) -m pytest $(EVERY_CORE_BY_FILE) $(SPARK_TESTS)
	$(COMPILED) $(PY) -m pytest $(SPARK_KILLS)

test-spark42: setup java .venv-spark42/.ready compiled ## the same on PySpark 4.2
	$(COMPILED) .venv-spark42/bin/python -m pytest $(EVERY_CORE_BY_FILE) $(SPARK42_TESTS)

.venv-spark42/.ready: tools/setup.sh tools/spark42.lock | setup
	tools/setup.sh spark42

lock: pyproject.toml ## renew requirements.lock from pyproject.toml
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --all-extras --group dev --group docs -o requirements.lock pyproject.toml
	echo "pyspark==4.2.1" | $(PY) -m uv pip compile --quiet --no-deps --generate-hashes --no-header --no-annotate \
	  --python-version 3.11 -o tools/spark42.lock -

check: setup ## format, lint, types, layers, names, generated code
	$(PY) -m ruff format --check src tests bench demo tools setup.py
	$(PY) -m ruff check src tests bench demo tools setup.py
	$(PY) -m mypy
	PYTHONPATH=src .venv/bin/lint-imports
	PYTHONPATH=src $(PY) tools/async_to_sync.py --check
	$(PY) -m tools.check_names

demo: packages-of-demo ## run the main job end to end and show the tables; says at each step how long the rest takes
	@tools/demo.sh

bench: compiled java ## the benchmark table, with RabbitMQ, Artemis and NATS beside us
	tools/setup.sh bench
	$(COMPILED) $(PY) -m bench --document

docs: setup ## build the documentation, warnings are errors
	PYTHONPATH=src $(PY) -m sphinx -W --keep-going -b html docs docs/_build/html

dist: setup ## sdist and wheels into dist/, each installed and used; compiled for .venv's Python and PYTHONS="3.12 3.13", or all
	tools/dist.sh

dist-check: setup ## the sdist alone, installed as README says, compiled, on .venv's Python
	tools/dist.sh check

release: setup ## make and check all of a release but its upload; TAG=1 tags it here
	$(PY) -m tools.release $(if $(TAG),--tag)

mutants: setup ## plant bugs and show that each is found
	PYTHONPATH=src $(PY) -m tests.simulation.mutants

explore: compiled ## new examples for the Hypothesis tests, ROUNDS=10 times as many
	for round in $$(seq $(ROUNDS)); do \
	  POSTROOM_EXPLORE=1 $(COMPILED) $(PY) -m pytest -m hypothesis --timeout 900 $(HYPOTHESIS_TESTS) || exit 1; \
	done

soak: compiled java peers ## the long runs: seeds, kills, faults, damaged files, in MINUTES=180 or a little more
	$(COMPILED) $(PY) -m tests.soak --minutes $(MINUTES)

fuzz: setup ## fuzz the decoder for ten minutes
	PYTHONPATH=src $(PY) tests/amqp/fuzz_codec.py --seconds 600

clean: ## remove what was built
	rm -rf build dist docs/_build demo/out bench/out
