#!/usr/bin/env bash
# Builds what is handed out, and installs it where nothing of ours is, as its users do:  tools/dist.sh [check]
#   without a word: sdist and wheels into dist/; each Python that is here installs one and uses it, and each extra is tried
#   check: only the sdist, built, held against the source tree and, where packaging has changed since it was last checked so
#     (tools/packaging.sum, which is committed) or with FORCE=1, installed by the command that README.md names, compiled, on
#     the Python of .venv
# Compiling takes minutes for each Python. Wheels are compiled for .venv's and for those in PYTHONS ("3.12 3.13", or all), by
# default the newest that is here. The interpreted wheel, which one build makes for all of them, is tried on each.
set -euo pipefail
cd "$(dirname "$0")/.."

KNOWN=(3.11 3.12 3.13 3.14)
WORK=build/dist
SUM=tools/packaging.sum # of what decides whether the sdist can be installed and used
UV=(.venv/bin/python -m uv)

say() { echo "== $* ($((SECONDS / 60)) min $((SECONDS % 60)) s)"; }

logged() { # logged NAME COMMAND…: its output in a log, whose end is shown when the command fails
  local log=$WORK/$1.log; shift
  "$@" > "$log" 2>&1 || { tail -n 40 "$log"; echo "postroom: failed: $*; the whole log is in $log" >&2; exit 1; }
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

find_python() { # find_python 3.12: that Python, from .venv, PATH or pyenv; fails where there is none that makes environments
  [ "$1" != "$main" ] || { echo .venv/bin/python; return; }
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    "$candidate" -c 'import ensurepip' 2> /dev/null || continue
    command -v "$candidate"
    return
  done
  return 1
}

look_for_pythons() { # fill here, the versions that are here, and compiled, those that get a compiled wheel
  main=$(version_of .venv/bin/python)
  here=() compiled=()
  local version
  for version in "${KNOWN[@]}"; do
    if find_python "$version" > /dev/null; then here+=("$version"); else say "Python $version is not here: left out"; fi
  done
  local wanted=${PYTHONS:-${here[-1]}}
  [ "$wanted" != all ] || wanted=${here[*]}
  wanted="$main $wanted"
  for version in $wanted; do
    find_python "$version" > /dev/null || { echo "postroom: PYTHONS names Python $version, which is not here" >&2; exit 2; }
  done
  mapfile -t compiled < <(tr ' ' '\n' <<< "$wanted" | sort -u -V)
}

readme_commands() { # readme_commands PATTERN: those of README's section on installing that have it, at least one
  sed -n '/^## Install/,/^## /s/^\$ \([^#]*[^# ]\) *\(#.*\)\{0,1\}$/\1/p' README.md | grep -- "$1" \
    || { echo "postroom: README.md's section on installing has no command like: $1" >&2; exit 1; }
}

# Building

build_sdist() {
  rm -rf src/*.egg-info # which remembers files that are gone
  logged sdist "${UV[@]}" build --sdist -o "$1" .
  rm -rf src/*.egg-info
  .venv/bin/python tools/check_contents.py "$1"/*.tar.gz
}

build_compiled() { # build_compiled VERSION: a wheel of the sdist, for every Linux that its symbols allow
  local raw=$WORK/raw-$1
  # Python's own way to link may name the folders of this machine's libraries, which a wheel should not look into.
  POSTROOM_COMPILE=1 CC=cc LDSHARED="cc -shared" logged "wheel-$1" \
    "${UV[@]}" build --wheel --python "$(find_python "$1")" -o "$raw" dist/*.tar.gz
  logged "auditwheel-$1" tidy_wheel "$raw"
  .venv/bin/python tools/check_contents.py dist/*-"$(tag "$1")"-*.whl
}

tidy_wheel() { # tidy_wheel FOLDER: into dist/, without symbols for debugging, named after the oldest glibc that has all it needs
  PATH=$PWD/.venv/bin:$PATH
  .venv/bin/auditwheel repair --strip --plat auto -w dist "$1"/*.whl && return
  echo "postroom: auditwheel can't make this wheel one for other systems, it is left as it is"
  cp "$1"/*.whl dist
}

build_interpreted() { # as on a machine without a C compiler
  CC=no-compiler-here logged wheel-interpreted "${UV[@]}" build --wheel -o dist dist/*.tar.gz
  grep -m 1 '^postroom: .*building it interpreted' $WORK/wheel-interpreted.log \
    || { echo "postroom: without a compiler the build doesn't say that it is interpreted: $WORK/wheel-interpreted.log" >&2; exit 1; }
  .venv/bin/python tools/check_contents.py dist/*-none-any.whl
}

tag() { echo "cp${1/./}"; }

# Installing

new_environment() { # new_environment PYTHON
  rm -rf $WORK/env
  "$1" -m venv $WORK/env
}

try_installed() { PYTHONPATH= $WORK/env/bin/python -I tools/check_installed.py "$@"; } # compiled|interpreted [EXTRA…]

install_by() { # install_by FOLDER COMMAND: there, into the empty environment, with the pip that is in it
  local started=$SECONDS
  PATH=$PWD/$WORK/env/bin:$PATH logged install bash -c "cd '$1' && $2"
  say "$2: $((SECONDS - started)) s"
}

try_compiled() { # try_compiled VERSION
  new_environment "$(find_python "$1")"
  local command
  command=$(readme_commands 'dist/.*whl')
  install_by . "${command//cp311/$(tag "$1")}"
  try_installed compiled
}

try_interpreted() { # try_interpreted VERSION
  new_environment "$(find_python "$1")"
  install_by . "pip install $(echo dist/*-none-any.whl)"
  try_installed interpreted
}

try_extras() { # try_extras COMMAND: README's, which adds them to an installed wheel; by uv, which has much at hand for .venv
  local extras=${1#*[} uv="${UV[*]}" into="--python $WORK/env/bin/python"
  extras=${extras%]*}
  new_environment .venv/bin/python
  logged "wheel-for-$extras" $uv pip install $into dist/*-"$(tag "$main")"-*.whl
  logged "extras-$extras" bash -c "$uv ${1/install/install $into}"
  try_installed compiled ${extras//,/ }
}

# The two ways

packaging_sum() { # of the files that say how it is built, which others go into it, and which libraries the source imports
  {
    cat pyproject.toml setup.py MANIFEST.in LICENSE tools/dist.sh tools/check_contents.py tools/check_installed.py tools/uv-version
    sed -n '/^## Install/,/^## /p' README.md
    find src -type f ! -name '*.py' ! -name '*.so' ! -path '*/__pycache__/*' ! -path '*.egg-info/*' | LC_ALL=C sort
    grep -rhoE --include='*.py' '^ *(from|import) [A-Za-z_0-9]+' src | sed -E 's/^ *(from|import) //' | LC_ALL=C sort -u
  } | sha256sum | cut -d' ' -f1
}

check() {
  local command
  command=$(readme_commands 'install \.$')
  build_sdist $WORK
  if [ -z "${FORCE:-}" ] && [ "$(packaging_sum)" = "$(cat $SUM 2> /dev/null)" ]; then
    say "packaging is as it was when it was last installed and tried: that is left out (FORCE=1 does it all the same)"
    return
  fi
  mkdir $WORK/source
  tar -xzf $WORK/*.tar.gz -C $WORK/source --strip-components 1
  new_environment .venv/bin/python
  POSTROOM_COMPILE=1 install_by $WORK/source "$command"
  try_installed compiled
  tools/compile.sh $WORK/env/lib/python*/site-packages # so that tests of the compiled version are of what was installed
  packaging_sum > $SUM
}

dist() {
  look_for_pythons
  rm -rf dist
  build_sdist dist
  build_interpreted
  local version command commands
  commands=$(readme_commands 'postroom\[')
  for version in "${here[@]}"; do try_interpreted "$version"; done
  for version in "${compiled[@]}"; do
    say "compiling for Python $version"
    build_compiled "$version"
    try_compiled "$version"
  done
  mapfile -t commands <<< "$commands"
  for command in "${commands[@]}"; do try_extras "$command"; done
  say "in dist: $(cd dist && echo *)"
}

rm -rf $WORK
mkdir -p $WORK
case ${1:-dist} in
  dist | check) "${1:-dist}" ;;
  *) echo "usage: tools/dist.sh [check]" >&2; exit 2 ;;
esac
rm -rf $WORK/env $WORK/source
