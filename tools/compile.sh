#!/usr/bin/env bash
# Builds the compiled version into build/compiled, beside the source and never inside it.
# The extensions are made again only when a source that goes into them has changed.
#   compile.sh [FOLDER]: with the folder of packages into which this very source was installed, they are taken from there
set -euo pipefail
cd "$(dirname "$0")/.."

hot_sources() {
  .venv/bin/python - << 'PY'
import runpy
declared = runpy.run_path("setup.py", run_name="sources")
print(*[path for group, _ in declared["hot_groups"]() for path in group], *declared["c_sources"]().values(), "setup.py")
PY
}

build() {
  .venv/bin/python setup.py -q "$@" > build/compile.log 2>&1 || {
    tail -n 40 build/compile.log
    echo "postroom: the compiled build failed; the whole log is in build/compile.log" >&2
    exit 1
  }
}

take_installed() { # take_installed FOLDER: the extensions of the distribution that is installed there
  mkdir -p build/compiled
  .venv/bin/python - "$1" << 'PY'
import sys
from importlib.metadata import distributions
from pathlib import Path
from shutil import copy2

(installed,) = distributions(name="postroom", path=[sys.argv[1]])
for file in installed.files:
    if file.suffix == ".so":
        place = Path("build/compiled", file)
        place.parent.mkdir(parents=True, exist_ok=True)
        copy2(file.locate(), place)
PY
}

mkdir -p build
exec 9> build/lock
flock 9 # one at a time: who comes second finds the work done
touch build/started # what changes while the build runs counts as changed after it
made_of=$(cat $(hot_sources) requirements.lock | sha256sum)
if [ "$made_of" != "$(cat build/extensions.sum 2> /dev/null)" ]; then
  rm -rf build/compiled build/temp build/extensions.sum
  if [ $# -gt 0 ]; then take_installed "$1"; else
    echo "== set-up: the hot modules are compiled into build/compiled, about two minutes on two cores" >&2
    POSTROOM_COMPILE=1 build build_ext --build-lib build/compiled --build-temp build/temp
  fi
  echo "$made_of" > build/extensions.sum
fi
find build/compiled -name '*.py' -delete
POSTROOM_COMPILE=0 build build_py --build-lib build/compiled
mv build/started build/compiled/.ready
