#!/usr/bin/env bash
# Builds the compiled version into build/compiled, beside the source and never inside it.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/compiled build/temp
mkdir -p build
touch build/.started
if ! .venv/bin/python setup.py -q build --build-lib build/compiled --build-temp build/temp > build/compile.log 2>&1; then
  tail -n 40 build/compile.log
  echo "postroom: the compiled build failed; the whole log is in build/compile.log" >&2
  exit 1
fi
mv build/.started build/compiled/.ready # as old as the sources it was made from: what changed meanwhile is built next time
