"""Who writes tables where files can't be locked: a lease, which is renewed, or lost aloud."""

import json
import logging
from uuid import uuid4

import pytest

from postroom.spark.pipeline import lock
from postroom.spark.pipeline.errors import EXIT_FAILED, EXIT_IN_USE, LeaseLost, PipelineInUse, exit_code_of
from postroom.spark.pipeline.lock import LEASE_FILE, Lease, held, holder
from postroom.spark.pipeline.options import LEASE_HEARTBEAT_S, LEASE_TIMEOUT_S
from postroom.spark.pipeline.root import Root

OTHERS = json.dumps({"id": "another", "holder": "process 1 elsewhere", "time_s": 1e12})


@pytest.fixture
def root(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Root:
    monkeypatch.setattr(lock, "LEASE_PAUSE_S", 0.0)
    return Root(f"{bucket}/{uuid4().hex}")


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_second_pipeline_is_told_who_has_the_lease(root: Root) -> None:
    assert holder(root) is None
    with held(root) as hold:
        assert "process" in str(holder(root))
        with pytest.raises(PipelineInUse, match=r"process \d+ on "), held(root):
            pass
        hold.check()
    assert root.read(LEASE_FILE) is None
    with held(root):
        pass


def test_a_lease_that_was_not_renewed_is_void(root: Root) -> None:
    root.write(LEASE_FILE, json.dumps({"id": "dead", "holder": "process 1", "time_s": 1.0}))
    assert holder(root) is None
    with held(root):
        assert holder(root) is not None


def test_of_two_that_came_at_once_one_goes(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.time, "sleep", lambda _: root.write(LEASE_FILE, OTHERS))
    with pytest.raises(PipelineInUse, match="process 1 elsewhere"), held(root):
        pass
    assert root.read(LEASE_FILE) == OTHERS


def test_who_finds_another_lease_in_its_place_has_lost_its_own(root: Root) -> None:
    with pytest.raises(PipelineInUse, match="process 1 elsewhere") as lost, held(root) as hold:
        assert isinstance(hold, Lease)
        root.write(LEASE_FILE, OTHERS)
        hold.beat()
    assert exit_code_of(lost.value) == EXIT_IN_USE
    assert root.read(LEASE_FILE) == OTHERS


def test_a_lease_that_cannot_be_renewed_is_lost_before_others_may_begin(
    root: Root, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    lease = Lease(root, clock)
    lease.write()

    def failing(name: str) -> str | None:
        raise OSError("the network is down")

    monkeypatch.setattr(root, "read", failing)
    with caplog.at_level(logging.WARNING):
        for _ in range(int((LEASE_TIMEOUT_S - LEASE_HEARTBEAT_S) // LEASE_HEARTBEAT_S)):
            clock.now_s += LEASE_HEARTBEAT_S
            lease.beat()
            lease.check()
        clock.now_s += LEASE_HEARTBEAT_S / 2
        lease.beat()
    assert "the network is down" in caplog.text
    with pytest.raises(LeaseLost, match="the network is down") as lost:
        lease.check()
    assert exit_code_of(lost.value) == EXIT_FAILED


def test_a_failure_that_passes_is_forgotten(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    lease = Lease(root, clock)
    lease.write()
    with monkeypatch.context() as broken:
        broken.setattr(root, "write", lambda *_: (_ for _ in ()).throw(OSError("busy")))
        clock.now_s += LEASE_TIMEOUT_S - LEASE_HEARTBEAT_S
        lease.beat()
    lease.beat()
    clock.now_s += LEASE_TIMEOUT_S - LEASE_HEARTBEAT_S
    lease.beat()
    lease.check()
