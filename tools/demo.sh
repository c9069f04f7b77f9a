#!/usr/bin/env bash
# What `make demo` does in a clone, said step by step with how long the rest takes. Steps whose work is done already are passed over.
set -euo pipefail
cd "$(dirname "$0")/.."

# Seconds on two quiet cores; the hot modules are compiled beside the demo, which doesn't wait for them.
SETUP_S=30 DEMO_S=160 COMPILING_S=100

missing() { ! make --question "$1" > /dev/null 2>&1; }

about() { # about SECONDS
  if [ "$1" -lt 90 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

step() { # step WORDS SECONDS: what is done now, how long it takes, and all that is left with it
  echo "== $1: about $(about "$2"); all that is left: about $(about "$left") (on two cores with nothing else to do)"
  left=$((left - $2))
}

what="The demo: two brokers and a replicated one, clients that crash, a cut line, an active member that is killed, Spark beside them"
source=build/compiled
left=$DEMO_S
missing .venv/.ready && { setup=yes; left=$((left + SETUP_S)); } || setup=
if [ -n "$setup" ] || missing build/compiled/.ready; then
  what="$what; and beside it all the hot modules of the broker are compiled"
  source=src
  left=$((left + COMPILING_S)) DEMO_S=$((DEMO_S + COMPILING_S))
fi

if [ -n "$setup" ]; then
  step "Python's packages, Spark among them, go into .venv" $SETUP_S
  tools/setup.sh build
  tools/compile.sh > /dev/null 2>&1 & # the demo waits for it, and says what went wrong
  make --no-print-directory setup
fi
step "$what" $DEMO_S
PYTHONPATH=$source exec .venv/bin/python -m demo
