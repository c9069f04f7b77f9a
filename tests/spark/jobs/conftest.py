"""A broker with queues for jobs to act on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.jobs.job_broker import Scene, scene


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as made:
        yield made
