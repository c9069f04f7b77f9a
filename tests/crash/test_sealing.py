"""The ledger's background work fails for a while: whoever sends waits, is told by an alarm, and goes on."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.ledger.format.file_names import events_name
from postroom.ledger.verification.verification import verify
from tests.server.broker_process import Process
from tests.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.sockets

FILES = 10
MESSAGES = 400


def test_clients_go_on_when_what_kept_files_from_being_sealed_has_gone(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    config = tmp_path / "postroom.toml"
    config.write_text("[ledger]\njournal_file_bytes = 1048576\n")
    process = serve(tmp_path, "--config", str(config))
    connection = BlockingConnection(process.ready(), timeout=WAIT_S)
    sender = connection.create_sender("orders")
    in_the_way = [tmp_path / "data" / f"{events_name(number)}.tmp" for number in range(1, FILES)]
    for folder in in_the_way:
        folder.mkdir()
    accepted: list[int] = []

    def send() -> None:
        for number in range(MESSAGES):
            sender.send(Message(body="x" * 10_000, durable=True))
            accepted.append(number)

    sending = threading.Thread(target=send)
    sending.start()
    wait_for(lambda: "alarm name=maintenance-stopped" in process.log_text())
    assert len(accepted) < MESSAGES
    for folder in in_the_way:
        folder.rmdir()
    sending.join(WAIT_S)
    assert len(accepted) == MESSAGES
    connection.close()
    assert process.end() == 0
    assert process.log_text().count("alarm name=maintenance-stopped") == 1
    assert process.log_text().count("alarm-over name=maintenance-stopped") == 1
    found = verify(tmp_path / "data", bodies=True)
    assert (found.is_whole, found.bodies_checked) == (True, MESSAGES)
