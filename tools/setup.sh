#!/usr/bin/env bash
# Sets up what a target needs: tools/setup.sh python | java | peers | bench
# As root on Debian or Ubuntu it installs missing system packages; otherwise it prints the exact command and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

need_packages() { # need_packages WHY PACKAGE…
  local why=$1; shift
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "installing $* ($why)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null
  else
    echo "postroom: $why; install it with:  sudo apt-get install -y $*" >&2
    exit 1
  fi
}

setup_python() {
  local python=${PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || { echo "postroom: Python 3.11 or newer is needed, $python is $("$python" -V)" >&2; exit 1; }
  if [ ! -x .venv/bin/pip ]; then
    "$python" -c 'import ensurepip' 2> /dev/null || need_packages "Python's venv module is missing" python3-venv
    "$python" -m venv .venv
  fi
  command -v cc > /dev/null || need_packages "the compiled build needs a C compiler" gcc libc6-dev
  "$python" - << 'PY' || need_packages "the compiled build needs Python's headers" python3-dev
import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())
PY
  .venv/bin/python -m uv --version > /dev/null 2>&1 || .venv/bin/pip install -q "uv==$(cat tools/uv-version)"
  VIRTUAL_ENV=.venv .venv/bin/python -m uv pip install --quiet --require-hashes -r requirements.lock
  touch .venv/.ready
}

java_major() {
  command -v "$1" > /dev/null || { echo 0; return; }
  "$1" -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p'
}

setup_java() {
  [ "$(java_major java)" -ge 17 ] || need_packages "Spark and the Java clients need Java 17" openjdk-17-jdk-headless
}

setup_peers() {
  command -v npm > /dev/null || need_packages "the JavaScript client of the tests needs npm" nodejs npm
  [ "$(java_major javac)" -ge 17 ] || need_packages "the Java client of the tests needs a JDK" openjdk-17-jdk-headless
  command -v mvn > /dev/null || need_packages "the Java client of the tests needs Maven" maven
  command -v strace > /dev/null || need_packages "the system-call test needs strace" strace
  tools/clients.sh
}

setup_bench() {
  setup_java
  command -v mvn > /dev/null || need_packages "Artemis is fetched by Maven" maven
  tools/peers/install.sh
}

case "${1:-}" in
  python) setup_python ;;
  java) setup_java ;;
  peers) setup_peers ;;
  bench) setup_bench ;;
  *) echo "usage: tools/setup.sh python | java | peers | bench" >&2; exit 2 ;;
esac
