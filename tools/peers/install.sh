#!/usr/bin/env bash
# Fetches what `make bench` compares with, into .tools/: nothing is installed into the system, no service is started.
#   tools/peers/install.sh [proton] [rabbitmq] [artemis] [kafka]        (the first three where none is named)
# Debian packages are downloaded with their missing dependencies and unpacked below .tools/debian/root; a package that
# the machine already has is used as it is. Artemis and Kafka come from Maven Central.
set -euo pipefail
cd "$(dirname "$0")/../.."

ARTEMIS_VERSION=2.56.0
KAFKA_VERSION=4.1.1
DEBIAN=.tools/debian

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
  local ready=.tools/.ready-$1; shift
  [ -f "$ready" ] && return
  "$@"
  touch "$ready"
}

install_proton() {
  # Debian's name carries the library's version: 11 in bookworm, later ones elsewhere.
  local package
  package=$(apt-cache search --names-only '^libqpid-proton[0-9]+-dev$' | sort -V | tail -1 | cut -d' ' -f1)
  fetch_packages "${package:?no libqpid-proton*-dev package is known to apt}"
}

install_rabbitmq() {
  fetch_packages rabbitmq-server
  # Debian's erl takes its own folder for granted; unpacked elsewhere, it must take it from ERL_ROOTDIR.
  local erl=$DEBIAN/root/usr/lib/erlang/bin/erl
  [ ! -f $erl ] || sed -i 's#ROOTDIR=/usr/lib/erlang#ROOTDIR=${ERL_ROOTDIR:-/usr/lib/erlang}#' $erl
}

install_artemis() {
  mkdir -p .tools/artemis
  mvn -q -B dependency:copy -DoutputDirectory="$PWD/.tools/artemis" \
    -Dartifact=org.apache.artemis:apache-artemis:$ARTEMIS_VERSION:tar.gz:bin
  tar -xzf .tools/artemis/apache-artemis-$ARTEMIS_VERSION-bin.tar.gz -C .tools/artemis
  rm .tools/artemis/apache-artemis-$ARTEMIS_VERSION-bin.tar.gz
  fetch_packages libaio1  # its journal's fastest kind, ASYNCIO, needs it
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
for peer in "${@:-proton rabbitmq artemis}"; do
  for one in $peer; do
    case $one in
      proton) install_once proton install_proton ;;
      rabbitmq) install_once rabbitmq install_rabbitmq ;;
      artemis) install_once artemis install_artemis ;;
      kafka) install_once kafka install_kafka ;;
      *) echo "usage: tools/peers/install.sh [proton] [rabbitmq] [artemis] [kafka]" >&2; exit 2 ;;
    esac
  done
done
