# Every target does its own set-up. `make help` lists them.
SHELL := /bin/bash
PY := .venv/bin/python
CHECK_PY := .venv-check/bin/python
COMPILED := PYTHONPATH=build/compiled
# Tests start a thousand processes of Python, and each would compile what it imports: bytecode is kept, wherever this is set not to.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
# What depends on Spark's version: sources, streams, tables and sinks in Spark's Python processes, and what SQL makes of them.
SPARK42_TESTS := $(addprefix tests/spark/session/,test_worker.py ledger_source store pipeline/test_pipeline.py audit/test_audit.py) \
  $(addprefix tests/spark/,tap/test_tap.py consume/test_consume.py sink/test_sink.py)
TESTS :=
MINUTES := 180
SINCE := HEAD
TIMES := build/test-times.json
# What `make check` plays: tests that run nothing of the source.
NOT_STATIC := --ignore=tests/static
# A process for each core: tests/scheduling.py says what each of them gets.
EVERY_CORE := -n auto
HOT_SOURCES := setup.py pyproject.toml $(shell find src -name '*.py' -o -name '*.c')

# apt-get takes one caller at a time.
.NOTPARALLEL:
.PHONY: help setup packages-of-demo packages-of-test set-up-of-test compiled java peers test test-pure test-changed test-times test-long test-spark42 coverage check lock bench demo docs dist dist-check release mutants fuzz clean

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

# Spark's JVMs take their classes from there in tests.
SHARED_CLASSES := SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=$(CURDIR)/build/spark.jsa -Xlog:disable -Xlog:all=error:stderr"
build/spark.jsa: tools/spark_classes.py requirements.lock | compiled java
	@echo "== set-up: an archive of Spark's classes, with which its JVMs start sooner in tests" >&2
	@$(COMPILED) $(PY) -m tools.spark_classes

compiled: build/compiled/.ready ## build the compiled version into build/compiled
build/compiled/.ready: $(HOT_SOURCES) | setup
	tools/compile.sh

set-up-of-test: packages-of-test compiled java peers build/spark.jsa

test: set-up-of-test ## a sample of everything, with each kind of test in it; TESTS="tests/server …" takes some folders or files
	$(COMPILED) $(SHARED_CLASSES) $(PY) -m pytest $(EVERY_CORE) --times=$(TIMES) $(or $(TESTS),$(NOT_STATIC))

test-pure: .venv-check/.ready ## the tests that need no socket, process or Spark, interpreted; no PySpark, browser or peer is installed for them
	PYTHONPATH=src $(CHECK_PY) -m pytest $(EVERY_CORE) --pure

test-changed: setup java ## the tests nearest to what differs from the last commit, or from SINCE=COMMIT, interpreted
	@tests=$$($(PY) -m tools.changed_tests $(SINCE)) || exit 0; \
	PYTHONPATH=src $(PY) -m pytest $(EVERY_CORE) $$tests

test-times: ## what the last `make test` cost: by kind, folder, file and test
	$(PY) -m tests.times $(TIMES)

test-long: set-up-of-test .venv-check/.ready ## everything whole, with new examples, seeds for MINUTES=180, planted bugs; goes on where it was stopped, AGAIN=1 begins anew
	$(COMPILED) $(SHARED_CLASSES) $(PY) -m tests.long --minutes $(MINUTES) $(if $(AGAIN),--again)

coverage: .venv-check/.ready ## lines and branches that own tests reach in pure rooms that have changed, held to tests/coverage.json; WHOLE=1: in all; KEEP=1 records them
	PYTHONPATH=src $(CHECK_PY) -m tests.coverage $(if $(WHOLE),--whole) $(if $(KEEP),--keep)

test-spark42: setup java .venv-spark42/.ready compiled ## what depends on Spark's version, on PySpark 4.2
	$(COMPILED) .venv-spark42/bin/python -m pytest $(EVERY_CORE) $(SPARK42_TESTS)

.venv-spark42/.ready: tools/setup.sh tools/spark42.lock | setup
	tools/setup.sh spark42

lock: pyproject.toml ## renew the lock files from pyproject.toml
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --all-extras --group dev --group docs -o requirements.lock pyproject.toml
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --all-extras --group check --override <(echo 'pyspark; sys_platform == "never"') \
	  -c <(sed -nE '/^pyspark=/d; s/^([a-z0-9._-]+==[^\]*).*/\1/p' requirements.lock) -o tools/check.lock pyproject.toml
	echo "pyspark==4.2.1" | $(PY) -m uv pip compile --quiet --no-deps --generate-hashes --no-header --no-annotate \
	  --python-version 3.11 -o tools/spark42.lock -

check: .venv-check/.ready ## format, lint, types, layers, names, generated code
	$(CHECK_PY) -m ruff format --check src tests bench demo tools setup.py
	$(CHECK_PY) -m ruff check src tests bench demo tools setup.py
	$(CHECK_PY) -m mypy
	PYTHONPATH=src .venv-check/bin/lint-imports
	PYTHONPATH=src $(CHECK_PY) tools/async_to_sync.py --check
	$(CHECK_PY) -m tools.check_names
	PYTHONPATH=src $(CHECK_PY) -m pytest tests/static

.venv-check/.ready: tools/setup.sh tools/check.lock
	tools/setup.sh check

demo: packages-of-demo ## run the main job end to end and show the tables; says at each step how long the rest takes
	@tools/demo.sh

bench: compiled java ## the benchmark table, with RabbitMQ, Artemis and NATS beside us
	tools/setup.sh bench
	$(COMPILED) $(PY) -m bench --document

docs: setup ## build the documentation, warnings are errors
	PYTHONPATH=src $(PY) -m sphinx -W --keep-going -b html docs docs/_build/html

dist: setup ## sdist and wheels into dist/, each installed and used; compiled for .venv's Python and PYTHONS="3.12 3.13", or all
	tools/dist.sh

dist-check: setup ## the sdist, held against the source; where packaging has changed, or FORCE=1, installed as README says
	tools/dist.sh check

release: setup ## make and check all of a release but its upload; TAG=1 tags it here
	$(PY) -m tools.release $(if $(TAG),--tag)

mutants: setup ## plant bugs and show that each is found
	PYTHONPATH=src $(PY) -m tests.simulation.mutants

fuzz: setup ## fuzz the decoder for ten minutes
	PYTHONPATH=src $(PY) tests/amqp/fuzz_codec.py --seconds 600

clean: ## remove what was built
	rm -rf build dist docs/_build demo/out bench/out
