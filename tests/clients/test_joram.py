"""The JMS conformance tests of Joram pass, through Qpid JMS. All of them: none is excluded."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import HERE, make_ready
from tests.sampling import spread

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

JAR = HERE / "joram" / "target" / "lib" / "joram-jms-tests-1.0.jar"
PACKAGE = "org.objectweb.jtests.jms.conform"
TEST_COUNTS = {
    "connection.ConnectionTest": 7,
    "connection.TopicConnectionTest": 2,
    "message.headers.MessageHeaderTest": 9,
    "message.MessageBodyTest": 3,
    "message.MessageDefaultTest": 2,
    "message.MessageTypeTest": 14,
    "message.properties.JMSXPropertyTest": 3,
    "message.properties.MessagePropertyConversionTest": 71,
    "message.properties.MessagePropertyTest": 15,
    "queue.QueueBrowserTest": 2,
    "queue.TemporaryQueueTest": 1,
    "selector.SelectorSyntaxTest": 22,
    "selector.SelectorTest": 14,
    "session.QueueSessionTest": 5,
    "session.SessionTest": 10,
    "session.TopicSessionTest": 7,
    "session.UnifiedSessionTest": 8,
    "topic.TemporaryTopicTest": 1,
}
"""How many tests each class has: one that goes missing is a failure."""

WAYS = {
    "prefetch": "",
    "no prefetch": "?jms.prefetchPolicy.all=0",
}
"""Qpid JMS with its usual credit of 1,000 messages, and asking for each message alone, with drain."""

RUN_S = 100

Result = dict[str, Any]
"""``class``, ``test``, ``took_ms``, and ``failure``: the stack trace, or None."""


def run(url: str) -> dict[str, list[Result]]:
    """Run all tests in one JVM; the results by class."""
    classes = [f"{PACKAGE}.{name}" for name in TEST_COUNTS]
    program = f"{HERE}/joram/target/runner.jar:{HERE}/joram/target/lib/*"
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", program]
    done = subprocess.run(
        [*java, "postroom.joram.Main", url, *classes],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results: dict[str, list[Result]] = defaultdict(list)
    for line in done.stdout.splitlines():
        result = json.loads(line)
        results[result["class"]].append(result)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, list[Result]]]]:
    """The results of a way to run them, which happens when somebody first asks; on a broker of their own."""
    make_ready("joram")
    with BrokerProcess(tmp_path_factory.mktemp("joram") / "data") as broker:
        yield cache(lambda way: run(broker.url + WAYS[way]))


@pytest.mark.parametrize("name", TEST_COUNTS)
@pytest.mark.parametrize("way", spread(tuple(WAYS), 1))
def test_joram(way: str, name: str, results: Callable[[str], dict[str, list[Result]]]) -> None:
    found = results(way)[f"{PACKAGE}.{name}"]
    failures = [f"{result['test']}: {result['failure']}" for result in found if result["failure"]]
    assert not failures, "\n".join(failures)
    assert len(found) == TEST_COUNTS[name]


def test_all_classes_of_the_jar_are_run() -> None:
    make_ready("joram")
    with zipfile.ZipFile(JAR) as jar:
        names = [re.fullmatch(r".*/conform/([\w/]+Test)\.class", name) for name in jar.namelist()]
    assert sorted(name[1].replace("/", ".") for name in names if name) == sorted(TEST_COUNTS)
