"""The pytest plugin: fixtures with a broker of the test's own. Imported by pytest alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from postroom.testing.broker import Broker

MARKER = "postroom"
ABOUT_MARKER = (
    f"{MARKER}(config=None, users=None, port=0, clock='frozen'): what the broker of postroom_broker is like"
)
BROKERS: pytest.StashKey[list[Broker]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", ABOUT_MARKER)


@pytest.fixture
def postroom_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Broker]]:
    """Makes brokers in memory, with the arguments of postroom.testing.Broker; they end with the test."""
    from postroom.testing.broker import Broker

    made = request.node.stash.setdefault(BROKERS, [])
    with ExitStack() as stack:

        def make(**arguments: Any) -> Broker:
            broker = stack.enter_context(Broker(**arguments))
            made.append(broker)
            return broker

        yield make


@pytest.fixture
def postroom_broker(request: pytest.FixtureRequest, postroom_broker_factory: Callable[..., Broker]) -> Broker:
    """A broker in memory (postroom.testing.Broker), as the test's marker postroom(…) says."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        return postroom_broker_factory()
    if marker.args:
        raise pytest.UsageError(f"{request.node.nodeid}: the marker {MARKER} takes keyword arguments only")
    return postroom_broker_factory(**marker.kwargs)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A test that fails tells how its queues were."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and report.when == "call":
        for broker in item.stash.get(BROKERS, []):
            report.sections.append((f"postroom {broker.url}", broker.describe()))
