"""Real members on a real cluster: clients go on at another one, whatever has ended the active one."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection
from tools.peers.nats import NatsCluster
from tools.peers.ports import LOOPBACK, free_port

from postroom.cli import main
from postroom.client import AcknowledgeMode, Message, TransactionRolledBackException
from postroom.client.aio import Connection, ConnectionFactory, MessageConsumer
from postroom.ledger.verification.verification import Severity, verify
from postroom.server.exits import Exit
from tests.client.breakable_connection import Watch
from tests.client.fake_broker import asynchronous
from tests.clients.broker import BrokerProcess
from tests.clients.driver import HERE, jms_command, make_ready
from tests.replication.members import member, members, wait_until_following, wait_until_logged

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(400)]  # NATS takes up to 10 s to elect a leader
TIMEOUT_S = 30
RHEA = HERE / "rhea"
PTRACE_CONT, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 0x4206, 0x4207
EPOLL_WAITS = ("232", "281", "22")
"""Numbers of epoll_wait and epoll_pwait: x86-64, and AArch64."""


async def connect(watch: Watch, *brokers: BrokerProcess) -> Connection:
    urls = ",".join(broker.url for broker in brokers)
    return await ConnectionFactory(f"failover:({urls})", listener=watch).create_connection()


async def ids(consumer: MessageConsumer) -> list[object]:
    found: list[object] = []
    while (message := await consumer.receive_no_wait()) is not None:
        found.append(message.message_id)
    return found


def assert_whole(*folders: Path) -> None:
    """Ledgers of members that have stopped."""
    for folder in folders:
        found = verify(folder, bodies=True)
        assert found.of(Severity.ERROR) == []
        assert found.records


def test_a_producer_goes_on_at_another_member(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """Over a kill, and over a stop of who has taken over, back at the first."""
    with members(tmp_path, nats, stream) as (first, second):

        @asynchronous
        async def act() -> None:
            watch = Watch()
            async with await connect(watch, first, second) as connection:
                session = await connection.create_session()
                producer = await session.create_producer("q")
                names = [f"ID:{number}" for number in range(300)]
                for number, name in enumerate(names):
                    if number == 100:
                        await asyncio.to_thread(first.kill)
                    if number == 200:
                        await asyncio.to_thread(first.launch)
                        await asyncio.to_thread(second.stop)
                    await producer.send(Message(name, message_id=name))
                assert (watch.interruptions, watch.restorations) == (2, 2)
                found = await ids(await session.create_consumer("q"))
                assert list(dict.fromkeys(found)) == names
                assert len(found) <= len(names) + 2

        act()
        first.stop()
        assert_whole(first.folder, second.folder)


def test_a_member_that_is_stopped_while_it_takes_over_stops(
    tmp_path: Path, nats: NatsCluster, stream: str
) -> None:
    """SIGTERM that comes after the claim and before it serves clients isn't lost."""
    alone = member(tmp_path, "a", nats, stream)
    alone.module = "tests.replication.stopped_at_claim"
    alone.launch()
    assert alone.wait_for_exit() == Exit.STOPPED
    lines = alone.log_text.splitlines()
    assert [event for line in lines for event in ("active", "started", "stopped") if f" {event}" in line] == [
        "active",
        "started",
        "stopped",
    ]
    assert_whole(alone.folder)


def test_a_member_whose_port_another_took_says_so(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """A member that follows is bound to its port, but listens only once it is the active one."""
    with members(tmp_path, nats, stream) as (first, second), socket.socket() as other:
        wait_until_following(second)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((LOOPBACK, second.port))
        other.listen()
        first.kill()
        assert second.wait_for_exit() == Exit.ADDRESS
        assert "Traceback" not in second.log_text
        assert f"can't listen on {LOOPBACK}:{second.port}: Address already in use" in second.log_text
        assert_whole(second.folder)


def test_transactions_go_on_at_another_member(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """From one queue to another, by ten in a transaction, over a kill in the middle of one: each message is
    moved once."""
    with members(tmp_path, nats, stream) as (first, second):

        @asynchronous
        async def act() -> None:
            names = [f"ID:{number}" for number in range(200)]
            watch = Watch()
            async with await connect(watch, first, second) as connection:
                plain = await connection.create_session()
                await (await plain.create_producer("q")).send_all(Message(n, message_id=n) for n in names)
                session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
                consumer = await session.create_consumer("q", prefetch=30)
                producer = await session.create_producer("done")
                failed = 0
                for round_number in range(len(names)):
                    batch = 0
                    while batch < 10 and (message := await consumer.receive_no_wait()) is not None:
                        await producer.send(Message(message.body, message_id=message.message_id))
                        batch += 1
                        if (round_number, batch) == (5, 5):
                            await asyncio.to_thread(first.kill)
                    try:
                        await session.commit()
                    except TransactionRolledBackException:
                        failed += 1
                        continue
                    if not batch:
                        break
                assert (failed, watch.restorations) == (1, 1)
                found = await ids(await plain.create_consumer("done"))
                assert sorted(map(str, found)) == sorted(names)

        act()
        second.stop()
        assert_whole(second.folder)


@pytest.mark.peer
def test_qpid_jms_goes_on_at_another_member(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """A producer in the middle of its sends: each message is there, in order; at most the one whose answer
    was lost with the member is there twice."""
    make_ready("qpid_jms")
    with members(tmp_path, nats, stream) as (first, second):
        url = f"failover:({first.url},{second.url})"
        with subprocess.Popen(
            jms_command("FailOver", url, "300"), stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            for line in program.stdout:
                if line == "sent 100\n":
                    first.kill()
                last = line
        assert (program.returncode, last) == (0, "received 300 different in order\n")
        second.stop()
        assert_whole(second.folder)


@pytest.mark.peer
def test_rhea_goes_on_at_another_member(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """As Qpid JMS does: it is given the members' addresses in turn, and sends again what has no answer."""
    make_ready("rhea")
    with members(tmp_path, nats, stream) as (first, second):
        command = ["node", str(RHEA / "fail_over.js"), "300", str(first.port), str(second.port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            for line in program.stdout:
                if line == "sent 100\n":
                    first.kill()
                last = line
        assert (program.returncode, last) == (0, "received 300 different in order\n")
        second.stop()
        assert_whole(second.folder)


def test_who_was_paused_is_fenced(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """Nothing that it gets after a take-over is accepted; it ends by itself, and follows when it is started
    again."""
    with members(tmp_path, nats, stream) as (first, second):
        stale = BlockingConnection(first.url, timeout=TIMEOUT_S)
        sender = stale.create_sender("q")
        sender.send(ProtonMessage(body="one", durable=True))
        first.send_signal(signal.SIGSTOP)
        second.wait_until_ready()
        transfer = sender.link.send(ProtonMessage(body="stale", durable=True))
        first.send_signal(signal.SIGCONT)
        assert first.wait_for_exit() == Exit.NOT_ACTIVE
        with pytest.raises(Exception, match=r"(?i)disconnected|closed|reset"):
            stale.wait(lambda: transfer.settled or transfer.remote_state, timeout=TIMEOUT_S)
        assert not transfer.remote_state, "it was told that its message is accepted"
        assert "member 'b' has claimed the log" in first.log_text
        first.launch()
        with_second = BlockingConnection(second.url, timeout=TIMEOUT_S)
        with_second.create_sender("q").send(ProtonMessage(body="two", durable=True))
        second.stop()
        first.wait_until_ready()
        receiver = BlockingConnection(first.url, timeout=TIMEOUT_S).create_receiver("q", credit=10)
        bodies = []
        for _ in range(2):
            bodies.append(receiver.receive(timeout=TIMEOUT_S).body)
            receiver.accept()
        assert bodies == ["one", "two"]
        first.stop()
        assert_whole(first.folder, second.folder)


def test_nodes_of_the_engine_may_go(tmp_path: Path, stream: str) -> None:
    """One of three: a pause, nothing else. Two: nothing is acknowledged, the active member stops, and goes on
    with everything that it had acknowledged when they are back."""
    with NatsCluster(tmp_path / "nats") as cluster:
        broker = member(tmp_path, "a", cluster, stream)
        with broker:
            connection = BlockingConnection(broker.url, timeout=TIMEOUT_S)
            sender = connection.create_sender("q")
            sender.send(ProtonMessage(body="0", durable=True))
            for number, node in enumerate(cluster.nodes, 1):
                node.kill()
                sender.send(ProtonMessage(body=str(number), durable=True))
                node.start()
                cluster.wait()
            assert "claimed" not in broker.log_text
            for node in cluster.nodes[:2]:
                node.kill()
            transfer = sender.link.send(ProtonMessage(body="unknown", durable=True))
            assert broker.wait_for_exit() == Exit.NOT_ACTIVE
            assert not transfer.remote_state
            assert "NATS has not acknowledged" in broker.log_text
            broker.launch()
            for node in cluster.nodes[:2]:
                node.start()
            broker.wait_until_ready()
            receiver = BlockingConnection(broker.url, timeout=TIMEOUT_S).create_receiver("q", credit=10)
            bodies = []
            for _ in range(4):
                bodies.append(receiver.receive(timeout=TIMEOUT_S).body)
                receiver.accept()
            assert bodies == ["0", "1", "2", "3"]


def test_a_member_starts_while_a_node_is_gone(tmp_path: Path, stream: str) -> None:
    """What can't be asked of the engine's minority is told; without a majority the member waits."""
    with NatsCluster(tmp_path / "nats") as cluster:
        broker = member(tmp_path, "a", cluster, stream)
        with broker:
            BlockingConnection(broker.url, timeout=TIMEOUT_S).create_sender("q").send(
                ProtonMessage(body="kept", durable=True)
            )
        cluster.nodes[0].kill()
        with broker:
            receiver = BlockingConnection(broker.url, timeout=TIMEOUT_S).create_receiver("q")
            assert receiver.receive(timeout=TIMEOUT_S).body == "kept"
            assert broker.log_text.count("it isn't known whether that server syncs") == 1
            receiver.release()
        cluster.nodes[1].kill()
        broker.launch()
        wait_until_logged(broker, "waits for the engine", TIMEOUT_S)
        cluster.nodes[0].start()
        broker.wait_until_ready()
        broker.kill()


def test_dangerous_settings_are_refused(tmp_path: Path, nats: NatsCluster) -> None:
    """With a name of what is dangerous; they are taken where they are allowed by that name."""
    config = """
[[listen]]
address = "{{address}}"
[replication]
servers = {servers}
member = "a"
{settings}
"""
    cases = {
        f'monitoring = {nats.monitoring}\nreplicas = 1\nstream = "few"': "few-replicas",
        'stream = "unsynced"': "unsynced",
    }
    for settings, name in cases.items():
        text = config.format(servers=nats.urls, settings=settings)
        broker = BrokerProcess(tmp_path / name, text)
        broker.launch()
        assert broker.wait_for_exit() == Exit.LEDGER_REFUSED
        assert f'accept it with allow = ["{name}"]' in broker.log_text
        with BrokerProcess(tmp_path / name, text + f'allow = ["{name}"]\n') as allowed:
            allowed.stop()


def run(*arguments: str) -> str:
    """A command, which must succeed; what it prints."""
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def listed(broker: BrokerProcess) -> dict[str, dict[str, Any]]:
    output = run("member", "list", "--url", broker.url, "--json")
    rows = [json.loads(line) for line in output.splitlines()]
    return {row["name"]: row for row in rows}


def wait_for_members(broker: BrokerProcess, states: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Until the active one lists them so: each says every two seconds how it is."""
    end_s = time.monotonic() + TIMEOUT_S
    while True:
        found = listed(broker)
        if {name: row["state"] for name, row in found.items()} == states:
            return found
        assert time.monotonic() < end_s, found


def test_members_are_listed_removed_and_handed_over_to(
    tmp_path: Path, nats: NatsCluster, stream: str
) -> None:
    http_port = free_port()
    slow, known_as = "claim_after_ms = 60000\n", "amqp://a.example:5672"
    of_first = f'urls = ["{known_as}"]\n[http]\naddress = "127.0.0.1:{http_port}"'
    with members(tmp_path, nats, stream, "abc", slow, of_first) as (first, second, third):
        found = wait_for_members(first, {"a": "active", "b": "follower", "c": "follower"})
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=TIMEOUT_S).read()
        for member_labels in ('member="a",state="active"', 'member="c",state="follower"'):
            assert f"postroom_member_position{{{member_labels}}}" in metrics.decode()
        assert found["a"]["urls"] == [known_as]
        assert [found[name]["behind_s"] < TIMEOUT_S for name in "abc"] == [True] * 3
        assert "postroom_member_behind_seconds{" in metrics.decode()
        of_first, of_second = (
            json.loads(run("status", "--data", str(each.folder), "--ready", "--json"))
            for each in (first, second)
        )
        assert (of_first["state"], of_first["members"]["c"]["state"]) == ("active", "follower")
        assert (of_second["state"], of_second["active_member"]) == ("following", "a")
        assert of_second["active_urls"] == [known_as]
        refused = CliRunner().invoke(main, ["status", "--data", str(second.folder), "--active"])
        assert (refused.exit_code, "it is following" in refused.output) == (1, True)
        assert re.search(r"Members \(3\)\n.*\n *a +active", run("top", "--once", "--url", first.url))
        assert f"active member:  a {known_as}" in run("status", "--data", str(second.folder))
        assert found["a"]["position"] > 0
        third.kill()
        assert "removed c" in run("member", "remove", "c", "--url", first.url)
        wait_for_members(first, {"a": "active", "b": "follower"})
        refused = CliRunner().invoke(main, ["member", "remove", "a", "--url", first.url])
        assert refused.exit_code != 0
        assert "'a' is the active member: hand over to another first" in refused.output
        unknown = CliRunner().invoke(main, ["member", "hand-over", "x", "--url", first.url])
        assert unknown.exit_code != 0
        assert "there is no member 'x'" in unknown.output
        run("put", "q", "before", "--url", first.url)
        added = CliRunner().invoke(
            main,
            ["user", "add", "ann", "--role", "administrator", "--stdin", "--url", first.url],
            input="secret\n",
        )
        assert added.exit_code == 0, added.output
        as_user = first.url.replace("//", "//ann:secret@")
        assert "hands over to b" in run("member", "hand-over", "b", "--url", as_user)
        assert first.wait_for_exit() == Exit.STOPPED
        second.wait_until_ready()
        as_user = second.url.replace("//", "//ann:secret@")
        assert run("get", "q", "--url", as_user).strip() == "before"
        acts = run("ledger", "acts", "--data", str(first.folder))
        assert "HAND-OVER" in acts


def test_who_takes_over_goes_by_the_file_as_it_is_then(
    tmp_path: Path, nats: NatsCluster, stream: str
) -> None:
    """SIGHUP doesn't end a follower."""
    with members(tmp_path, nats, stream) as (first, second):
        wait_for_members(first, {"a": "active", "b": "follower"})
        file = tmp_path / "b.toml"
        file.write_text(file.read_text() + '[[queue]]\nname = "later"\n')
        second.send_signal(signal.SIGHUP)
        first.kill()
        second.wait_until_ready()
        assert "reload-waits" in second.log_text
        rows = [json.loads(line) for line in run("queue", "list", "--url", second.url, "--json").splitlines()]
        assert "reloaded changed=queue" in second.log_text
        assert {row["name"] for row in rows} >= {"q", "done", "later"}


def test_an_active_member_whose_loop_stands_still_gives_up_its_claim(
    tmp_path: Path, nats: NatsCluster, stream: str
) -> None:
    """Its other threads run, and its heartbeats go on."""
    with members(tmp_path, nats, stream, more="stop_after_ms = 1000") as (first, second):
        connection = BlockingConnection(first.url, timeout=TIMEOUT_S)
        connection.create_sender("q").send(ProtonMessage(body="one", durable=True))
        wait_until_following(second)
        with standing_still(first.pid):
            second.wait_until_ready()
            assert first.wait_for_exit() == Exit.NOT_ACTIVE
        assert " loop-stalled " in first.log_text
        assert " claim-given-up " in first.log_text
        receiver = BlockingConnection(second.url, timeout=TIMEOUT_S).create_receiver("q")
        assert receiver.receive(timeout=TIMEOUT_S).body == "one"
        receiver.accept()
        second.stop()
        assert_whole(first.folder, second.folder)


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """The first thread of a process is stopped where it waits, and no other."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(request: int) -> None:
        if libc.ptrace(request, pid, None, None):
            raise OSError(ctypes.get_errno(), "ptrace")

    ptrace(PTRACE_SEIZE)
    while True:
        ptrace(PTRACE_INTERRUPT)
        os.waitpid(pid, 0)
        if Path(f"/proc/{pid}/syscall").read_text().split()[0] in EPOLL_WAITS:
            break  # else it may have the interpreter, which the others need
        ptrace(PTRACE_CONT)
    yield
