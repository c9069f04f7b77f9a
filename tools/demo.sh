#!/usr/bin/env bash
# What `make demo` does in a clone, said step by step with how long the rest takes. Steps whose work is done already are passed over.
set -euo pipefail
cd "$(dirname "$0")/.."

# Seconds on two quiet cores.
SETUP_S=35 COMPILE_S=150 DEMO_S=50

missing() { ! make --question "$1" > /dev/null 2>&1; }

about() { # about SECONDS
  if [ "$1" -lt 90 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

step() { # step WORDS SECONDS: what is done now, how long it takes, and all that is left with it
  echo "== $1: about $(about "$2"); all that is left: about $(about "$left") (on two cores with nothing else to do)"
  left=$((left - $2))
}

left=$DEMO_S
missing .venv/.ready && { setup=yes; left=$((left + SETUP_S)); } || setup=
{ [ -n "$setup" ] || missing build/compiled/.ready; } && { compile=yes; left=$((left + COMPILE_S)); } || compile=

if [ -n "$setup" ]; then
  step "Python's packages, Spark among them, go into .venv" $SETUP_S
  make --no-print-directory setup
fi
if [ -n "$compile" ]; then
  step "The hot modules of the broker are compiled, into build/compiled" $COMPILE_S
  make --no-print-directory compiled
fi
step "The demo: two brokers, clients that crash, a cut line, Spark beside them" $DEMO_S
PYTHONPATH=build/compiled exec .venv/bin/python -m demo
