"""`postroom ledger backup | restore`: a real broker under load, what is put where, and what is refused."""

import asyncio
import json
import re
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli.main import main
from postroom.client import ConnectionFactory, Message
from postroom.ledger.verification.verification import Severity, verify
from tests.clients.broker import BrokerProcess

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]
CONFIG = """
[[listen]]
address = "{address}"
[ledger]
journal_file_bytes = 1048576
[[queue]]
name = "q"
"""
MADE = re.compile(r"backup (\S+) of ledger (\S+): \d+ files, [\d,]+ bytes, positions 1 to ([\d,]+): whole")


def run(*words: object) -> str:
    result = CliRunner().invoke(main, ["ledger", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object) -> str:
    result = CliRunner().invoke(main, ["ledger", *map(str, words)])
    assert result.exit_code == 1, result.output
    return result.output


def made(output: str) -> tuple[str, str, int]:
    """Name, ledger, last position."""
    found = MADE.search(output)
    assert found is not None, output
    return found[1], found[2], int(found[3].replace(",", ""))


class Load:
    """Sends numbers, each durable before the next, until it is stopped."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.sent = 0
        self._broker = broker
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        with ConnectionFactory(self._broker.url).create_connection() as connection:
            producer = connection.create_session().create_producer("q")
            while not self._stopped.is_set():
                producer.send(Message(f"{self.sent}".ljust(20_000)))
                self.sent += 1

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def numbers(broker: BrokerProcess) -> list[int]:
    """All that are there, in order."""
    found = []
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer("q")
        while (message := consumer.receive(2.0)) is not None:
            found.append(int(message.body))
    return found


def test_a_broker_is_backed_up_under_load_and_restored(tmp_path: Path) -> None:
    """Each has everything that was accepted before it began, in order; a later one puts there what is new."""
    store, least, backups = tmp_path / "store", [], []
    with BrokerProcess(tmp_path / "data", CONFIG) as broker, Load(broker) as load:
        for rounds in (1, 2):
            while load.sent < 200 * rounds:
                assert broker.is_running
                asyncio.run(asyncio.sleep(0.01))
            least.append(load.sent)
            backups.append(run("backup", "--data", tmp_path / "data", "--to", store))
    names = [made(each)[0] for each in backups]
    sealed = {line.split()[0] for line in backups[0].splitlines() if re.match(r"\d+\.(events|bodies) ", line)}
    again = {line.split()[0] for line in backups[1].splitlines()}
    assert sealed and not sealed & again, "a sealed file was put there twice"
    for at, (name, count) in enumerate(zip(names, least, strict=True)):
        folder = tmp_path / f"restored{at}"
        output = run("restore", "--from", store, "--data", folder, "--at", name)
        assert f"backup {name} of ledger {made(backups[at])[1]}" in output
        assert "whole; what came since is not in it" in output
        with BrokerProcess(folder, CONFIG) as restored:
            found = numbers(restored)
            assert found == list(range(len(found)))
            assert len(found) >= count
        assert verify(folder, bodies=True).of(Severity.ERROR) == []
    assert [each.name for each in (tmp_path / "restored1").iterdir() if each.is_dir()] == []
    newest = run("restore", "--from", store, "--data", tmp_path / "newest")
    assert f"backup {names[1]} of" in newest


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    data, store = tmp_path / "data", tmp_path / "store"
    assert "no ledger here" in refused("backup", "--data", data, "--to", store)
    assert "no backups" in refused("restore", "--from", store, "--data", tmp_path / "to")
    with BrokerProcess(data, CONFIG) as broker, Load(broker) as load:
        while load.sent < 100:
            asyncio.run(asyncio.sleep(0.01))
    name, ledger_id, _ = made(run("backup", "--data", data, "--to", store))
    assert "has a ledger" in refused("restore", "--from", store, "--data", data)
    assert f"there are: {name}" in refused("restore", "--from", store, "--data", tmp_path / "to", "--at", "x")
    files = sorted((store / ledger_id / "backup-files").glob("*.bodies.*"))
    whole = files[0].read_bytes()
    files[0].chmod(0o600)
    files[0].write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    damaged = refused("restore", "--from", store, "--data", tmp_path / "to")
    assert "isn't what was backed up: restore another backup" in damaged
    assert "no ledger here" in refused("stats", "--data", tmp_path / "to")
    (store / ledger_id / "backups" / f"{name}.json").unlink()
    assert "isn't what was put there: remove it" in refused("backup", "--data", data, "--to", store)
    files[0].write_bytes(whole)
    name = made(run("backup", "--data", data, "--to", store))[0]
    run("restore", "--from", store, "--data", tmp_path / "to")
    file = store / ledger_id / "backups" / f"{name}.json"
    file.chmod(0o600)
    listed = json.loads(file.read_text())
    for change, reason in (
        ({"version": 2}, "a backup of version 2; this Postroom knows 1"),
        ({"time_us": "x"}, "no list of a backup"),
        ({"files": [listed["files"][0] | {"name": "../x"}]}, "'../x' in a list is no file of a ledger"),
    ):
        file.write_text(json.dumps(listed | change))
        assert reason in refused("restore", "--from", store, "--data", tmp_path / "other")
    oldest = sorted(data.glob("*.events"))[0]
    oldest.write_bytes(bytes(oldest.stat().st_size))
    assert "at byte" in refused("backup", "--data", data, "--to", tmp_path / "another")
    assert not list((tmp_path / "another").glob("*/backups/*"))
