"""The real process: ready line, orderly stop, what it says when it can't start, what a kill leaves."""

import re
import resource
import signal
import socket
from pathlib import Path

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, SendException

from postroom.client import AcknowledgeMode, MessageFilter, UniqueId
from postroom.client import Message as ClientMessage
from postroom.client.sync import ConnectionFactory
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.exits import Exit
from tests.server.broker_process import Process, begin

pytestmark = pytest.mark.sockets


def fails(start: list[Process], folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and the one line on standard error."""
    failed = begin(start, folder, *options)
    code = failed.wait()
    lines = [line for line in failed.log_text().splitlines() if " INFO " not in line]
    assert len(lines) == 1, failed.log_text()
    return code, lines[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_stop(start: list[Process], tmp_path: Path, number: int) -> None:
    broker = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    connection = BlockingConnection(broker.ready(), timeout=15)
    connection.create_sender("q").send(Message(body="kept", durable=True))
    assert broker.end(number) == Exit.STOPPED
    assert "Traceback" not in broker.log_text()
    with pytest.raises(Exception, match="amqp:connection:forced"):
        connection.create_sender("q")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_messages_are_there_after_a_restart(start: list[Process], tmp_path: Path, number: int) -> None:
    first = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    connection = BlockingConnection(first.ready(), timeout=15)
    sender = connection.create_sender("q")
    for body in ("one", "two"):
        sender.send(Message(body=body, durable=True))
    sender.send(Message(body="volatile", durable=False))
    receiver = connection.create_receiver("q")
    assert receiver.receive(timeout=15).body == "one"
    first.end(number)
    second = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    again = BlockingConnection(second.ready(), timeout=15)
    receiver = again.create_receiver("q", credit=10)
    bodies = []
    for _ in range(2):
        bodies.append(receiver.receive(timeout=15).body)
        receiver.accept()
    assert bodies == ["one", "two"]
    with pytest.raises(Exception, match="timed out"):
        receiver.receive(timeout=0.1)
    again.close()
    assert second.end() == Exit.STOPPED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_seen_before_a_restart_is_flagged(start: list[Process], tmp_path: Path, number: int) -> None:
    """The client answers the broker's close and had no say in it: its application may have seen it."""
    first = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    with ConnectionFactory(first.ready(), request_timeout_s=20).create_connection() as connection:
        connection.create_session().create_producer("q").send("seen")
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer("q")
        message = consumer.receive(20)
        assert message is not None and not message.redelivered
        first.end(number)
    second = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    with ConnectionFactory(second.ready(), request_timeout_s=20).create_connection() as connection:
        again = connection.create_session().create_consumer("q").receive(20)
        assert again is not None and again.redelivered


def test_what_the_start_has_written_is_known_to_be_durable(start: list[Process], tmp_path: Path) -> None:
    """A first request that waits for it has its answer: here it reads the ids of stored messages, behind the
    record of a queue that is new in the configuration."""
    file = tmp_path / "postroom.toml"
    text = '[[listen]]\naddress = "127.0.0.1:0"\n'
    for number, name in enumerate(("stored", "new"), 1):
        text += f'[[queue]]\nname = "{name}"\n'
        file.write_text(text)
        broker = begin(start, tmp_path, "--config", str(file))
        with ConnectionFactory(broker.ready(), request_timeout_s=20).create_connection() as connection:
            store = connection.create_message_store("stored")
            store.put(ClientMessage("kept"), unique_id=UniqueId("TEST", number))
            assert len(store.browse(MessageFilter(), just_uid=True)) == number
        assert broker.end() == Exit.STOPPED


def test_two_listeners(start: list[Process], tmp_path: Path) -> None:
    broker = begin(start, tmp_path, "--listen", "127.0.0.1:0", "--listen", "localhost:0")
    BlockingConnection(broker.ready(), timeout=15).close()
    BlockingConnection(broker.ready(), timeout=15).close()
    assert broker.end() == Exit.STOPPED


def test_the_line_of_a_listener_for_websocket(start: list[Process], tmp_path: Path) -> None:
    config = tmp_path / "postroom.toml"
    config.write_text("[[listen]]\naddress = '127.0.0.1:0'\nwebsocket = { path = '/mq' }\n")
    broker = begin(start, tmp_path, "--config", str(config))
    assert broker.process.stdout is not None
    line = broker.process.stdout.readline()
    assert re.fullmatch(r"listening on ws://127\.0\.0\.1:\d+/mq\n", line), line
    assert broker.end() == Exit.STOPPED


def test_queues_of_the_configuration(start: list[Process], tmp_path: Path) -> None:
    config = tmp_path / "postroom.toml"
    config.write_text("[[queue]]\nname = 'small'\nmax_messages = 1\n[auto_create]\nenabled = false\n")
    broker = begin(start, tmp_path, "--config", str(config), "--listen", "127.0.0.1:0")
    connection = BlockingConnection(broker.ready(), timeout=15)
    sender = connection.create_sender("small")
    sender.send(Message(body="x", durable=True))
    with pytest.raises(SendException):
        sender.send(Message(body="y", durable=True))
    with pytest.raises(Exception, match="amqp:not-found"):
        connection.create_sender("other")
    connection.close()
    assert broker.end() == Exit.STOPPED
    room = "[[quota]]\nname = 'room'\nmessages_maximum = 2\n"
    config.write_text(room + "[[queue]]\nname = 'small'\nquota = 'room'\n")
    again = begin(start, tmp_path, "--config", str(config), "--listen", "127.0.0.1:0")
    connection = BlockingConnection(again.ready(), timeout=15)
    sender = connection.create_sender("small")
    sender.send(Message(body="y", durable=True))
    with pytest.raises(SendException):
        sender.send(Message(body="z", durable=True))
    connection.close()


def test_a_listener_that_nobody_can_use_is_said(start: list[Process], tmp_path: Path) -> None:
    broker = begin(start, tmp_path, "--listen", "0.0.0.0:0")
    broker.ready()
    assert broker.end() == Exit.STOPPED
    assert "nobody-can-log-in listen=0.0.0.0:0" in broker.log_text()


def test_logs_as_json(start: list[Process], tmp_path: Path) -> None:
    import json

    broker = begin(start, tmp_path, "--json-logs", "--listen", "127.0.0.1:0")
    broker.ready()
    broker.end()
    events = [json.loads(line) for line in broker.log_text().splitlines()]
    assert {"recovered", "started", "stopping", "stopped"} <= {event["event"] for event in events}


def test_a_port_that_is_taken_leaves_no_trace(start: list[Process], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = fails(start, tmp_path, "--listen", address)
    assert code == Exit.ADDRESS
    assert line == f"postroom: can't listen on {address}: Address already in use"
    assert not (tmp_path / "data").exists()


def test_a_folder_that_is_locked(start: list[Process], tmp_path: Path) -> None:
    first = begin(start, tmp_path / "a", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "shared"))
    first.ready()
    code, line = fails(start, tmp_path / "b", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "shared"))
    assert code == Exit.LOCKED
    assert f"in use by process {first.process.pid}" in line


def test_a_data_folder_that_is_a_file(start: list[Process], tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    code, line = fails(start, tmp_path, "--listen", "127.0.0.1:0")
    assert code == Exit.LEDGER_REFUSED
    assert str(tmp_path / "data") in line


def test_a_damaged_ledger_is_refused(start: list[Process], tmp_path: Path) -> None:
    broker = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    connection = BlockingConnection(broker.ready(), timeout=15)
    sender = connection.create_sender("q")
    for number in range(20):
        sender.send(Message(body=number, durable=True))
    connection.close()
    broker.end(signal.SIGKILL)
    journal = max((tmp_path / "data").glob("*.journal"))
    data = bytearray(journal.read_bytes())
    middle = data.rindex(b"PRB1", 0, data.rindex(b"PRB1", 0, data.rindex(b"PRB1"))) + 100
    data[middle] ^= 0xFF
    journal.write_bytes(data)
    code, line = fails(start, tmp_path, "--listen", "127.0.0.1:0")
    assert code == Exit.LEDGER_REFUSED
    assert journal.name in line


def test_a_failed_write_ends_the_broker_and_nothing_is_answered(start: list[Process], tmp_path: Path) -> None:
    broker = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    connection = BlockingConnection(broker.ready(), timeout=15)
    sender = connection.create_sender("q")
    sender.send(Message(body="safe", durable=True))
    resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (1024, 1024))
    delivery = sender.link.send(Message(body=bytes(2000), durable=True))
    with pytest.raises(ConnectionException):
        connection.wait(lambda: delivery.settled, timeout=15)
    assert broker.wait() == Exit.LEDGER_FAILED
    assert "ledger-failed" in broker.log_text()
    again = begin(start, tmp_path, "--listen", "127.0.0.1:0")
    connection = BlockingConnection(again.ready(), timeout=15)
    receiver = connection.create_receiver("q")
    assert receiver.receive(timeout=15).body == "safe"
    connection.close()


@pytest.mark.parametrize(
    ("text", "place"),
    [("x = 1\n", "postroom.toml:1: x: unknown key"), ("\n[limits\n", "postroom.toml:2: Expected ']'")],
)
def test_a_bad_configuration(start: list[Process], tmp_path: Path, text: str, place: str) -> None:
    config = tmp_path / "postroom.toml"
    config.write_text(text)
    code, line = fails(start, tmp_path, "--config", str(config))
    assert code == Exit.CONFIGURATION
    assert place in line


def test_files_with_secrets_that_others_can_read_are_warned_of(start: list[Process], tmp_path: Path) -> None:
    names = ("password", "tokens.json", "postroom.toml", "headers")
    password, tokens, config, headers = (tmp_path / name for name in names)
    password.write_text("sesame\n")
    headers.write_text("Authorization: Bearer sesame\n")
    tokens.write_text("[]")
    hashed = hash_password("root", iterations=MIN_ITERATIONS)
    config.write_text(
        f"""
[users]
root = "{hashed}"
[[role]]
name = "administrator"
members = ["root"]
[credentials.partner]
user = "us"
password_file = "{password}"
[http]
address = "127.0.0.1:0"
tokens = "{tokens}"
[tracing]
headers_file = "{headers}"
"""
    )
    options = ("--config", str(config), "--listen", "127.0.0.1:0")
    for mode, warned in ((0o644, True), (0o600, False)):
        for file in (password, tokens, config, headers):
            file.chmod(mode)
        folder = tmp_path / f"{mode:o}"
        broker = begin(start, folder, *options)
        broker.ready()
        for file in (password, tokens, config, headers):
            assert (f"file-open-to-others file={file} mode=644" in broker.log_text()) == warned
        broker.end()
        assert "sesame" not in broker.log_text()
