"""The real process on a small volume that fills: clients nobody here wrote are told, and served again."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from proton import Message, ProtonException, Timeout
from proton.utils import BlockingConnection, SendException

from postroom.ledger.verification.verification import verify
from postroom.server.exits import Exit
from tests.sampling import WHOLE, spread
from tests.server.broker_process import Process

Serve = Callable[[Path], Process]

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a volume of its own"),
]

BODY = b"x" * (64 << 10)
MOST = 20_000
SIZES_MB = (*spread((160, 64), 1), *map(int, os.environ.get("VOLUME_MB", "").split()))
"""A larger one takes a minute for each GB: VOLUME_MB=1024."""
KILLS = 6 if WHOLE else 3


@pytest.fixture(params=SIZES_MB, ids=[f"{size} MB" for size in SIZES_MB])
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An ext4 volume of so many MB."""
    with volume_of(request.param, tmp_path) as folder:
        yield folder


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    with volume_of(64, tmp_path) as folder:
        yield folder


@contextmanager
def volume_of(size_mb: int, tmp_path: Path) -> Iterator[Path]:
    image, folder = tmp_path / "image", tmp_path / "volume"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no volume can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
    image.unlink()


def body_for(volume: Path) -> bytes:
    """About a thousand of them fill it."""
    size = os.statvfs(volume)
    return b"x" * (size.f_frsize * size.f_blocks // 1000)


def fill(connection: BlockingConnection, body: bytes) -> int:
    """Send until the broker refuses; how many it took."""
    sender = connection.create_sender("orders")
    for number in range(MOST):
        try:
            sender.send(Message(id=f"{number}", body=body, durable=True))
        except SendException:
            sender.close()
            return number
    raise AssertionError("the volume did not fill")


def take(connection: BlockingConnection, count: int, body: bytes) -> None:
    receiver = connection.create_receiver("orders", credit=50)
    for _ in range(count):
        assert receiver.receive(timeout=30).body == body
        receiver.accept()
    receiver.close()


def test_a_full_volume_is_told_and_heals(volume: Path, serve: Serve) -> None:
    body = body_for(volume)
    process = serve(volume)
    connection = BlockingConnection(process.ready(), timeout=60)
    first = fill(connection, body)
    assert first > 200
    take(connection, first, body)
    again = fill(connection, body)
    assert again > first // 2
    output = process.log_text()
    assert output.count(" alarm name=disk-short") == output.count(" alarm-over name=disk-short") + 1 >= 2
    assert " alarm name=puts-refused" in output and "cure=" in output
    connection.close()
    process.end(signal.SIGKILL)
    process = serve(volume)
    connection = BlockingConnection(process.ready(), timeout=60)
    take(connection, again, body)
    connection.close()
    assert process.end() == 0
    assert verify(volume / "data", bodies=True).is_whole


class Orders:
    """A client that sends until it is refused and takes what there is, over and over, and writes down what it
    was told. It kills the broker after so many messages."""

    def __init__(self) -> None:
        self.sent = 0
        self.accepted: set[str] = set()
        self.taken: set[str] = set()

    def go_on(self, process: Process, kill_after: int) -> None:
        """Until the broker is gone. Raises ProtonException, OSError."""
        left = kill_after
        connection = BlockingConnection(process.ready(), timeout=60)
        connection.create_sender("orders").close()  # which makes the queue; to receive from it doesn't
        while True:
            left = self._take(connection, 150, process, left)
            left = self._send(connection, process, left)

    def take_all(self, process: Process) -> None:
        connection = BlockingConnection(process.ready(), timeout=60)
        self._take(connection, MOST, process, MOST)
        connection.close()

    def _send(self, connection: BlockingConnection, process: Process, left: int) -> int:
        sender = connection.create_sender("orders")
        with suppress(SendException):
            for _ in range(300):
                left = count_down(process, left)
                self.sent += 1
                sender.send(Message(id=f"{self.sent}", body=BODY, durable=True))
                self.accepted.add(f"{self.sent}")
        sender.close()
        return left

    def _take(self, connection: BlockingConnection, most: int, process: Process, left: int) -> int:
        receiver = connection.create_receiver("orders", credit=50)
        with suppress(Timeout):
            for _ in range(most):
                left = count_down(process, left)
                message = receiver.receive(timeout=1)
                receiver.accept()
                self.taken.add(message.id)
        receiver.close()
        return left


def count_down(process: Process, left: int) -> int:
    if left == 0:
        process.process.kill()
    return left - 1


def test_a_broker_that_is_killed_on_a_full_volume_loses_nothing(small_volume: Path, serve: Serve) -> None:
    """Whatever it was about: writing, sealing, packing, giving back, refusing."""
    orders, random = Orders(), Random(18)
    for _ in range(KILLS):
        process = serve(small_volume)
        with suppress(ProtonException, OSError):
            orders.go_on(process, random.randrange(50, 1000))
        process.wait()
    process = serve(small_volume)
    orders.take_all(process)
    assert process.end() == 0
    assert orders.accepted - orders.taken == set()
    assert len(orders.accepted) > 500
    assert verify(small_volume / "data", bodies=True).is_whole


def linked(volume: Path, tmp_path: Path) -> Path:
    """A folder with its log elsewhere than its data."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (volume / "data").mkdir(exist_ok=True)
    (folder / "data").symlink_to(volume / "data")
    return folder


def test_a_volume_that_becomes_read_only_ends_the_broker_before_it_answers(
    small_volume: Path, serve: Serve, tmp_path: Path
) -> None:
    process = serve(linked(small_volume, tmp_path))
    connection = BlockingConnection(process.ready(), timeout=30)
    sender = connection.create_sender("orders")
    sender.send(Message(id="1", body="kept", durable=True))
    aborted = subprocess.run(
        ["mount", "-o", "remount,abort", str(small_volume)], capture_output=True, check=False
    )
    if aborted.returncode:
        process.end(signal.SIGKILL)
        pytest.skip(f"ext4 can't be made to fail here: {aborted.stderr.decode().strip()}")
    with pytest.raises(ProtonException):
        sender.send(Message(id="2", body="never answered", durable=True))
    assert process.wait() == Exit.LEDGER_FAILED
    assert "ledger-failed" in process.log_text()


def test_a_read_only_folder_is_refused_at_the_start_and_can_be_read(
    small_volume: Path, serve: Serve, tmp_path: Path
) -> None:
    process = serve(small_volume)
    connection = BlockingConnection(process.ready(), timeout=30)
    connection.create_sender("orders").send(Message(id="1", body="kept", durable=True))
    connection.close()
    assert process.end() == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
    process = serve(linked(small_volume, tmp_path))
    assert process.wait() == Exit.LEDGER_REFUSED
    assert process.log_text().splitlines()[-1].endswith("Read-only file system")
    assert verify(small_volume / "data", bodies=True).is_whole
