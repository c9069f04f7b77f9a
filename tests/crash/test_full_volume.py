"""The real process on a small volume that fills: clients nobody here wrote are told, and served again."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection, SendException

from postroom.ledger.verify import verify
from tests.server.test_start import Process

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a volume of its own"),
]

BODY = b"x" * (64 << 10)
MOST = 4000


@pytest.fixture(params=[64, 160], ids=["64 MB", "160 MB"])
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An ext4 volume of so many MB."""
    image, folder = tmp_path / "image", tmp_path / "volume"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(request.param << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no volume can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(connection: BlockingConnection) -> int:
    """Send until the broker refuses; how many it took."""
    sender = connection.create_sender("orders")
    for number in range(MOST):
        try:
            sender.send(Message(id=f"{number}", body=BODY, durable=True))
        except SendException:
            sender.close()
            return number
    raise AssertionError("the volume did not fill")


def take(connection: BlockingConnection, count: int) -> None:
    receiver = connection.create_receiver("orders", credit=50)
    for _ in range(count):
        assert receiver.receive(timeout=30).body == BODY
        receiver.accept()
    receiver.close()


def test_a_full_volume_is_told_and_heals(volume: Path) -> None:
    process = Process(volume)
    connection = BlockingConnection(process.ready(), timeout=60)
    first = fill(connection)
    assert first > 200
    take(connection, first)
    again = fill(connection)
    assert again > first // 2
    said = process.said()
    assert said.count(" alarm name=disk-short") == said.count(" alarm-over name=disk-short") + 1 >= 2
    assert " alarm name=puts-refused" in said and "cure=" in said
    connection.close()
    process.end(signal.SIGKILL)
    process = Process(volume)
    connection = BlockingConnection(process.ready(), timeout=60)
    take(connection, again)
    connection.close()
    assert process.end() == 0
    assert verify(volume / "data", bodies=True).is_whole
