#!/bin/sh
# usage: tools/clients.sh [rhea] [qpid_jms] [joram] [spring_boot] [go_amqp]      (without names: all)
#
# Makes the foreign AMQP clients ready that the tests and the demo drive: rhea (npm ci), Qpid JMS and the runner of the
# Joram JMS tests (mvn package), the libraries of Spring Boot (mvn) and go-amqp (go). Does nothing for a client whose sources
# did not change since. Says what to install when a tool is missing.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
clients=$here/tests/clients

need() { # tool, Debian package
    command -v "$1" >/dev/null 2>&1 && return
    echo "$1 is missing; the tests with real clients need it. Install it with: sudo apt-get install -y $2" >&2
    exit 3
}

digest() { # of all files given
    cat "$@" | sha256sum | cut -d ' ' -f 1
}

# A stamp holds the digest of what the client was made from.
fresh() { # stamp, digest
    [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}

rhea() {
    dir=$clients/rhea
    stamp=$dir/node_modules/.postroom-stamp
    wanted=$(digest "$dir/package.json" "$dir/package-lock.json")
    fresh "$stamp" "$wanted" && return
    need node nodejs
    need npm npm
    echo "rhea: npm ci" >&2
    (cd "$dir" && npm ci --no-audit --no-fund --loglevel=error)
    echo "$wanted" >"$stamp"
}

maven() { # folder
    dir=$clients/$1
    stamp=$dir/target/.postroom-stamp
    # shellcheck disable=SC2046  # the paths are ours and hold no spaces
    wanted=$(cd "$dir" && digest pom.xml $(find src -type f | LC_ALL=C sort))
    fresh "$stamp" "$wanted" && return
    need java default-jdk-headless
    need javac default-jdk-headless
    need mvn maven
    echo "$1: mvn package" >&2
    (cd "$dir" && mvn -q -B -Dstyle.color=never clean package)
    echo "$wanted" >"$stamp"
}

spring_boot() { # the libraries alone: the program is the one in the how-to page
    dir=$clients/spring-boot
    stamp=$dir/target/.postroom-stamp
    wanted=$(digest "$dir/pom.xml")
    fresh "$stamp" "$wanted" && return
    need javac default-jdk-headless
    need mvn maven
    echo "spring-boot: mvn dependency:copy-dependencies" >&2
    (cd "$dir" && rm -rf target && mvn -q -B -Dstyle.color=never dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory=target/lib)
    echo "$wanted" >"$stamp"
}

go_amqp() { # fetched and compiled into Go's own caches
    dir=$clients/go-amqp
    need go golang
    (cd "$dir" && go build github.com/Azure/go-amqp)
}

[ $# -gt 0 ] || set -- rhea qpid_jms joram spring_boot go_amqp
for client in "$@"; do
    case $client in
        rhea) rhea ;;
        qpid_jms) maven qpid-jms ;;
        joram) maven joram ;;
        spring_boot) spring_boot ;;
        go_amqp) go_amqp ;;
        *)
            echo "unknown client $client: rhea, qpid_jms, joram, spring_boot or go_amqp" >&2
            exit 2
            ;;
    esac
done
