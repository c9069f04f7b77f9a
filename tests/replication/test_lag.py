"""How far a member is behind, by an active member's samples of the log's end."""

import pytest

from postroom.replication import lag as lag_module
from postroom.replication.lag import Growth, Lag


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(lag_module.time, "monotonic", lambda: now[0])
    return now


def test_what_is_lacking_is_as_old_as_the_sample_that_first_had_it(clock: list[float]) -> None:
    growth = Growth()
    assert growth.lag(0) == Lag(0, 0, 0.0)
    for last, size_bytes in ((10, 0), (20, 1000), (20, 1000), (50, 4000)):
        growth.sample(last, size_bytes)
        clock[0] += 2
    assert growth.lag(50) == growth.lag(60) == Lag(0, 0, 0.0)
    assert growth.lag(20) == Lag(30, 3000, 2.0)
    assert growth.lag(19) == Lag(31, 4000, 6.0)
    assert growth.lag(10) == Lag(40, 4000, 6.0)
    assert growth.lag(3) == Lag(47, 4000, 8.0), "older than the samples: at least"


def test_samples_are_bounded(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "MAX_SAMPLES", 3)
    growth = Growth()
    for last in range(1, 10):
        growth.sample(last)
        clock[0] += 1
    assert growth.lag(0) == Lag(9, 0, 3.0)
