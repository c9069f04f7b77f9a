#!/usr/bin/env bash
# Fetches what `make bench` compares with, into .tools/: nothing is installed into the system, no service is started.
#   tools/peers/install.sh [proton] [rabbitmq] [artemis] [nats] [kafka]        (all but Kafka where none is named)
# Debian packages are downloaded with their missing dependencies and unpacked below .tools/debian/root; a package that
# the machine already has is used as it is. RabbitMQ is Debian 13's on any machine, with Erlang and the libraries of that
# release beside it, below .tools/trixie/root. Artemis and Kafka come from Maven Central.
set -euo pipefail
cd "$(dirname "$0")/../.."

ARTEMIS_VERSION=2.56.0
KAFKA_VERSION=4.1.1
DEBIAN=.tools/debian
SUITE=trixie
MIRROR=http://deb.debian.org/debian # where this machine's apt names none
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
LIBRARIES='libc6|libcap2|libgcc-s1|libssl3t64|libstdc\+\+6|libsystemd0|libtinfo6|libzstd1|zlib1g'

fetch_packages() { # fetch_packages PACKAGE…: download and unpack those that the machine lacks
  command -v apt-get > /dev/null || { echo "postroom: $* come as Debian packages; this machine has no apt-get" >&2; exit 1; }
  [ "$(id -u)" != 0 ] || apt-get update -qq
  mkdir -p $DEBIAN/archives $DEBIAN/root
  local uri file rest name version
  apt-get --print-uris -y -qq --no-install-recommends install "$@" | while read -r uri file rest; do
    if [ ! -f "$DEBIAN/archives/$file" ]; then
      name=${file%%_*} version=${file#*_} version=${version%_*}
      (cd $DEBIAN/archives && apt-get download -qq -o APT::Sandbox::User=root "$name=${version/\%3a/:}")
    fi
    dpkg-deb -x "$DEBIAN/archives/$file" $DEBIAN/root
  done
}

install_once() { # install_once NAME COMMAND…: run COMMAND unless it went well before
  local name=$1 ready=.tools/.ready-$1; shift
  [ -f "$ready" ] && return
  echo "== set-up: $name goes into .tools" >&2
  "$@"
  touch "$ready"
}

install_proton() {
  # Debian's name carries the library's version: 11 in bookworm, later ones elsewhere.
  local package
  package=$(apt-cache search --names-only '^libqpid-proton[0-9]+-dev$' | sort -V | tail -1 | cut -d' ' -f1)
  fetch_packages "${package:?no libqpid-proton*-dev package is known to apt}"
}

install_rabbitmq() { # by an apt with lists of its own, which checks the release's signature and each package's sum
  local root=.tools/$SUITE/root archives=.tools/$SUITE/archives apt mirror names archive
  [ -f $KEYS ] || { echo "postroom: $KEYS is missing; install debian-archive-keyring" >&2; exit 1; }
  mkdir -p .tools/$SUITE/lists/partial $root $archives
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -1)
  echo "deb [signed-by=$KEYS] ${mirror:-$MIRROR} $SUITE main" > .tools/$SUITE/sources.list
  : > .tools/$SUITE/status
  apt=(-qq -o "Dir::State=$PWD/.tools/$SUITE" -o "Dir::State::status=$PWD/.tools/$SUITE/status"
    -o "Dir::Cache=$PWD/.tools/$SUITE" -o "Dir::Etc::sourcelist=$PWD/.tools/$SUITE/sources.list"
    -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root)
  apt-get "${apt[@]}" update
  names=$(apt-get "${apt[@]}" --print-uris -y --no-install-recommends install rabbitmq-server \
    | sed -nE "s/^[^ ]+ ((rabbitmq-server|erlang-[a-z0-9-]+|$LIBRARIES)_[^ ]+) .*/\1/p" | cut -d_ -f1)
  (cd $archives && apt-get "${apt[@]}" download $names)
  for archive in $archives/*.deb; do dpkg-deb -x "$archive" $root; done
  use_own_libraries $root
}

use_own_libraries() { # use_own_libraries ROOT: run Erlang's programs below it by the C library below it
  local erlang=$1/usr/lib/erlang loader program
  loader=$(cd "$1/usr/lib" && echo *-linux-gnu/ld-linux-*.so.*)
  # Debian's erl takes its own folder for granted; unpacked elsewhere, it must take it from ERL_ROOTDIR.
  sed -i 's#ROOTDIR=/usr/lib/erlang#ROOTDIR=${ERL_ROOTDIR:-/usr/lib/erlang}#' "$erlang"/bin/erl "$erlang"/erts-*/bin/erl
  find "$erlang" -type f -path '*/bin/*' -perm /111 ! -name '*.elf' | while read -r program; do
    [ "$(head -c 4 "$program" | tr -d '\0')" = $'\x7fELF' ] || continue
    mv "$program" "$program.elf"
    cat > "$program" << EOF
#!/bin/sh
exec "\${ERL_ROOTDIR%/erlang}/$loader" --argv0 "\$0" --library-path "\${ERL_ROOTDIR%/erlang}/${loader%/*}" "\$0.elf" "\$@"
EOF
    chmod +x "$program"
  done
}

install_artemis() {
  mkdir -p .tools/artemis
  mvn -q -B dependency:copy -DoutputDirectory="$PWD/.tools/artemis" \
    -Dartifact=org.apache.artemis:apache-artemis:$ARTEMIS_VERSION:tar.gz:bin
  tar -xzf .tools/artemis/apache-artemis-$ARTEMIS_VERSION-bin.tar.gz -C .tools/artemis
  rm .tools/artemis/apache-artemis-$ARTEMIS_VERSION-bin.tar.gz
  fetch_packages libaio1  # its journal's fastest kind, ASYNCIO, needs it
}

install_nats() { # the C client, for the load client; the server is among the Python packages
  fetch_packages libnats-dev
}

install_kafka() { # the server's jar and what it needs, with a log that goes to stderr
  mkdir -p .tools/kafka
  cat > .tools/kafka/pom.xml << EOF
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>postroom</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
EOF
  mvn -q -B -f .tools/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/.tools/kafka/jars"
}

mkdir -p .tools
for peer in "${@:-proton rabbitmq artemis nats}"; do
  for one in $peer; do
    case $one in
      proton) install_once proton install_proton ;;
      rabbitmq) install_once rabbitmq-$SUITE install_rabbitmq ;;
      artemis) install_once artemis install_artemis ;;
      nats) install_once nats install_nats ;;
      kafka) install_once kafka install_kafka ;;
      *) echo "usage: tools/peers/install.sh [proton] [rabbitmq] [artemis] [nats] [kafka]" >&2; exit 2 ;;
    esac
  done
done
