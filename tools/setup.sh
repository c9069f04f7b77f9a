#!/usr/bin/env bash
# Sets up what targets need:  tools/setup.sh [--packages] check | python | java | spark42 | peers | bench …  (one part or several)
# Missing system packages come first, those of all the named parts at once; --packages stops after them. As root on Debian
# or Ubuntu they are installed; otherwise the exact command is printed, and nothing else is done.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
reasons=() packages=()

lacks() { # lacks REASON PACKAGE…: note what is missing and what brings it
  reasons+=("$1"); shift
  packages+=("$@")
}

say() { echo "== set-up: $*" >&2; }

has() { command -v "$1" > /dev/null; }

# What each part lacks

lacks_python() {
  has "$PYTHON" && "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || { echo "postroom: Python 3.11 or newer is needed; name it with PYTHON=…, now it is $PYTHON" >&2; exit 1; }
  local name
  name=$("$PYTHON" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  [ -x .venv/bin/pip ] || "$PYTHON" -c 'import ensurepip' 2> /dev/null || lacks "Python's venv module" "$name-venv"
  can_compile || lacks "a C compiler with the headers of C and Python, for the compiled build" gcc libc6-dev "$name-dev"
  { has pkg-config && pkg-config openssl; } \
    || lacks "OpenSSL's headers, for Qpid Proton, which is built from source" libssl-dev pkg-config
}

lacks_java() {
  [ "$(java_major java)" -ge 17 ] || lacks "Java 17 or newer, for Spark" default-jdk-headless
}

lacks_spark42() { lacks_java; }

lacks_build() { lacks_python; }

lacks_check() { lacks_python; }

lacks_peers() {
  has node && has npm || lacks "Node and npm, for the tests' JavaScript client" nodejs npm
  [ "$(java_major javac)" -ge 17 ] || lacks "a JDK of Java 17 or newer, for the tests' Java client" default-jdk-headless
  has mvn || lacks "Maven, for the tests' Java client" maven
  has go || lacks "Go, for the tests' Go client" golang
  has openssl || lacks "the openssl command, for the tests' certificates" openssl
  has strace || lacks "strace, for the test of the broker's system calls" strace
  has chromium-headless-shell || lacks "Chromium without its window, for the tests of the web console" chromium-headless-shell
  lacks_keys
  has_postgres || lacks "PostgreSQL's server, for the tests of two-phase commit" postgresql
}

lacks_bench() {
  lacks_java
  lacks_keys
  has mvn || lacks "Maven, which fetches Artemis" maven
  has strace || lacks "strace, which counts the syncs" strace
}

lacks_keys() { # of the release that RabbitMQ is taken from: see tools/peers/install.sh
  [ -f /usr/share/keyrings/debian-archive-keyring.gpg ] || lacks "Debian's keys, for RabbitMQ" debian-archive-keyring
}

has_postgres() { # its programs: the tests make and start a cluster of their own
  has postgres || compgen -G "/usr/lib/postgresql/*/bin/postgres" > /dev/null
}

can_compile() { # as setup.py sees it
  "$PYTHON" -c 'import runpy, sys; sys.exit(not runpy.run_path("setup.py", run_name="sources")["can_compile"]())'
}

java_major() { # java_major java|javac: of the one in JAVA_HOME, else of the one in PATH, as Spark and Maven choose
  local command=${JAVA_HOME:+$JAVA_HOME/bin/}$1 said
  said=$("$command" -version 2>&1) || said=
  said=$(sed -nE 's/^(.* version|javac) "?([0-9]+).*/\2/p' <<< "$said")
  echo "${said:-0}"
}

# What is missing

look() { # look PART…: fill reasons and packages
  reasons=() packages=()
  local part
  for part in "$@"; do "lacks_$part"; done
}

tell_missing() { # tell_missing HEAD TAIL
  { echo "postroom: $1"; printf '  - %s\n' "${reasons[@]}"; echo "$2"; } >&2
}

install_packages() {
  local command
  command="apt-get install -y --no-install-recommends $(printf '%s\n' "${packages[@]}" | sort -u | xargs)"
  if [ "$(id -u)" != 0 ] || ! has apt-get; then
    tell_missing "this machine lacks" "On Debian or Ubuntu install that with:  $(! has sudo || echo "sudo ")$command"
    exit 1
  fi
  say "$command"
  apt-get update -qq || echo "postroom: apt-get update failed, going on with the package lists that are here" >&2
  # Another apt, as at a new machine's first start, is waited for.
  DEBIAN_FRONTEND=noninteractive $command -qq -o DPkg::Lock::Timeout=300 > /dev/null
}

provide() { # provide PART…: install what they lack, and see whether that was enough
  look "$@"
  [ ${#packages[@]} -gt 0 ] || return 0
  install_packages
  hash -r
  look "$@"
  [ ${#packages[@]} = 0 ] || { tell_missing "the packages are installed, and still this machine lacks" \
    "Look at PATH, PYTHON, CC and JAVA_HOME."; exit 1; }
}

# What is made of it

uv=(.venv/bin/python -m uv)

provide_uv() {
  [ -x .venv/bin/pip ] || { say "$PYTHON makes .venv"; "$PYTHON" -m venv .venv; }
  "${uv[@]}" --version > /dev/null 2>&1 || .venv/bin/pip install -q "uv==$(cat tools/uv-version)"
}

setup_build() { # what tools/compile.sh needs, which can begin while setup_python is at work
  local requires
  provide_uv
  mapfile -t requires < <(.venv/bin/python -c \
    'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
  "${uv[@]}" pip install --quiet -c requirements.lock "${requires[@]}"
}

install_locked() { # install_locked ENVIRONMENT LOCK: what the lock names, all of it checked
  local into=(pip install --python "$1/bin/python" --require-hashes -r "$2")
  say "$(grep -c '^[a-z]' "$2") Python packages of $2 go into $1; Qpid Proton among them is compiled"
  "${uv[@]}" "${into[@]}" --quiet
  # One that was built before OpenSSL's headers were there, and kept in a cache, can't do TLS.
  "$1/bin/python" -c 'import proton, sys; sys.exit(not proton.SSL.present())' \
    || "${uv[@]}" "${into[@]}" --quiet --no-cache --no-deps --reinstall-package python-qpid-proton
  touch "$1/.ready"
}

setup_check() { # an environment for linters, types and pure tests, without PySpark's jars, browsers and Jupyter
  provide_uv
  [ -x .venv-check/bin/python ] || "${uv[@]}" venv --quiet --python .venv/bin/python .venv-check
  install_locked .venv-check tools/check.lock
}

setup_python() {
  provide_uv
  install_locked .venv requirements.lock
}

setup_java() { :; } # the package is all

setup_spark42() { # a Python environment that has everything of .venv, and the older PySpark before it
  [ -x .venv-spark42/bin/python ] || "$PYTHON" -m venv .venv-spark42
  local packages
  say "PySpark of tools/spark42.lock goes into .venv-spark42"
  packages=$(.venv-spark42/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "${uv[@]}" pip install --quiet --python .venv-spark42/bin/python --no-deps --require-hashes -r tools/spark42.lock
  .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$packages/postroom.pth"
  touch .venv-spark42/.ready
}

setup_peers() { # the tests' foreign clients, the brokers that channels of the tests lead to, and Kafka for members
  say "foreign clients and brokers of the tests: rhea, Qpid JMS, Joram, Spring Boot, go-amqp, RabbitMQ, Artemis, Kafka"
  tools/clients.sh
  tools/assets.sh --install
  tools/peers/install.sh rabbitmq artemis kafka
}

setup_bench() { tools/peers/install.sh; }

only_packages=
if [ "${1:-}" = --packages ]; then only_packages=yes; shift; fi
for part in "${@:-none}"; do
  case $part in
    build | check | python | java | spark42 | peers | bench) ;;
    *) echo "usage: tools/setup.sh [--packages] build | check | python | java | spark42 | peers | bench …" >&2; exit 2 ;;
  esac
done
provide "$@"
[ -z "$only_packages" ] || exit 0
for part in "$@"; do "setup_$part"; done
