"""`postroom channel` against two running brokers: MQSC's verbs, and what they say when something is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import ConnectionFactory, Queue
from postroom.server.configuration.channels import ChannelConfig
from postroom.server.configuration.config import QueueConfig
from postroom.server.configuration.config_file import ConfigError, load_config
from tests.cli.shell import Shell
from tests.server.harness import TIMEOUT_S, BrokerThread, make_config

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def there() -> Iterator[BrokerThread]:
    receivers = [ChannelConfig(name=name, type="receiver") for name in ("TO.B", "STOP.B")]
    with BrokerThread(make_config(("in",), container_id="B", channel=receivers)) as running:
        yield running


@pytest.fixture(scope="module")
def here() -> Iterator[BrokerThread]:
    queues = [QueueConfig(name=name, usage="transmission") for name in ("B", "C", "D")]
    with BrokerThread(make_config(container_id="A", queue=queues)) as running:
        yield running


@pytest.fixture
def shell(here: BrokerThread) -> Shell:
    return Shell(here.url)


def refused(shell: Shell, *arguments: str) -> str:
    result = shell.run(*arguments)
    assert result.exit_code == 3, result.output
    return result.stderr


def state_comes(broker: BrokerThread, name: str, state: str) -> None:
    broker.wait_until(lambda each: each.channels.find(name).state.name.lower() == state)


def define(shell: Shell, name: str, queue: str, connection: str, *settings: str) -> None:
    assignments = (f"transmission_queue={queue}", f"connection={connection}", *settings)
    options = [option for setting in assignments for option in ("--set", setting)]
    assert shell.ok("channel", "define", name, "sender", *options) == f"created {name}\n"


def test_a_channel_is_defined_shown_altered_deleted(shell: Shell) -> None:
    define(shell, "D.1", "D", "amqp://localhost:1", "triggered=false", "batch_size=7")
    (listed,) = shell.json("channel", "list", "D.")
    assert (listed["name"], listed["channel_type"], listed["batch_size"]) == ("D.1", "sender", 7)
    assert (listed["state"], listed["type"]) == ("inactive", "postroom.channel")
    assert "D.1" in shell.ok("channel", "list", "D.")
    assert shell.ok("channel", "alter", "D.1", "--set", "batch_size=9") == "altered D.1: batch_size 7 → 9\n"
    (shown,) = shell.json("channel", "show", "D.1")
    assert shown["batch_size"] == 9 and "state" not in shown
    assert "batch_size: 9\n" in shell.ok("channel", "show", "D.1")
    assert shell.ok("channel", "delete", "D.1") == "deleted D.1\n"
    assert shell.json("channel", "list", "D.") == []


def test_messages_travel_and_the_status_tells(shell: Shell, here: BrokerThread, there: BrokerThread) -> None:
    define(shell, "TO.B", "B", there.url)
    shell.ok("put", "in@B", "one", "two")
    with ConnectionFactory(there.url).create_context() as context:
        consumer = context.create_consumer(Queue("in"))
        bodies = [consumer.receive(TIMEOUT_S) for _ in range(2)]
    assert [each and each.get_body(str) for each in bodies] == ["one", "two"]
    here.wait_until(lambda each: each.manager.channels.sync("TO.B").last_sequence == 2)
    (status,) = shell.json("channel", "status", "TO.B")
    assert (status["state"], status["partner"], status["address"]) == ("running", "B", there.address)
    assert (status["messages"], status["last_sequence"], status["in_doubt"]) == (2, 2, False)
    assert (status["current_sequence"], status["current_messages"]) == (2, 0)
    assert status["batches"] == 1 and len(str(status["last_luwid"])) == 32
    output = shell.ok("channel", "status", "TO.B")
    assert "state: running\n" in output and "in_doubt: no\n" in output and "last_sequence: 2\n" in output
    table = shell.ok("channel", "status")
    assert "TO.B" in table and "s ago" in table
    (other,) = Shell(there.url).json("channel", "status", "TO.B")
    assert (other["state"], other["partner"], other["last_luwid"]) == ("running", "A", status["last_luwid"])

    assert "is running already" in refused(shell, "channel", "start", "TO.B")
    for verb in (("reset",), ("ping",), ("delete",)):
        assert "is running" in refused(shell, "channel", *verb, "TO.B")
    assert "stop it first" in refused(shell, "channel", "resolve", "TO.B", "commit")
    assert shell.ok("channel", "stop", "TO.B").split(": ")[0] == "TO.B"
    state_comes(here, "TO.B", "stopped")
    assert "stopped by a command" in shell.ok("channel", "status")
    assert shell.ok("channel", "ping", "TO.B").startswith("B answers within ")
    assert shell.ok("channel", "reset", "TO.B", "--sequence", "9") == "TO.B: stopped\n"
    (status,) = shell.json("channel", "status", "TO.B")
    assert (status["last_sequence"], status["reset_sequence"]) == (8, 9)
    assert shell.ok("channel", "start", "TO.B") == "TO.B: starting\n"
    state_comes(here, "TO.B", "running")
    (status,) = shell.json("channel", "status", "TO.B")
    assert status["messages"] == 2  # since the broker runs, not since the channel does


@pytest.mark.parametrize("mode", ["quiesce", "force", "terminate"])
@pytest.mark.parametrize("status", ["stopped", "inactive"])
def test_stop_in_every_mode(
    shell: Shell, here: BrokerThread, there: BrokerThread, mode: str, status: str
) -> None:
    define(shell, "STOP.B", "C", there.url, "triggered=false")
    shell.ok("channel", "start", "STOP.B")
    state_comes(here, "STOP.B", "running")
    shell.ok("channel", "stop", "STOP.B", "--mode", mode, "--status", status)
    state_comes(here, "STOP.B", status)
    shell.ok("channel", "delete", "STOP.B")
    state_comes(there, "STOP.B", "inactive")


def test_a_partner_that_is_not_there(shell: Shell, here: BrokerThread) -> None:
    define(shell, "D.2", "D", "amqp://127.0.0.1:1", "short_retry_interval_s=3600")
    assert "can't connect to amqp://127.0.0.1:1" in refused(shell, "channel", "ping", "D.2")
    shell.ok("channel", "start", "D.2")
    state_comes(here, "D.2", "retrying")
    output = shell.ok("channel", "status")
    assert "D.2: 9 short retries left: can't connect to amqp://127.0.0.1:1" in output
    (status,) = shell.json("channel", "status", "D.2")
    assert (status["short_retries_left"], status["long_retries_left"]) == (9, 999_999_999)
    assert "retry: 20" in shell.ok("channel", "status", "D.2")
    shell.ok("channel", "delete", "D.2")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("start", "none"), "there is no channel 'none'"),
        (("status", "none"), "there is no channel 'none'"),
        (("define", "D.3", "sender"), "transmission_queue is ''"),
        (("define", "D.3", "sender", "--set", "transmission_queue=D"), "connection is ''"),
        (("define", "D.3", "receiver", "--set", "batch_size=0"), "batch_size is 0: must be 1 to 9999"),
        (("define", "D.3", "receiver", "--set", "batch_size=many"), "must be of type int"),
        (("define", "D.3", "receiver", "--set", "colour=red"), "has no attribute 'colour'"),
        (("define", "D-3", "receiver"), "'-' can't be in a name"),
        (
            ("define", "D.3", "receiver", "--set", "message_retry_exit=os:abort"),
            "in the configuration file only",
        ),
    ],
)
def test_what_can_not_be(shell: Shell, arguments: tuple[str, ...], what: str) -> None:
    assert what in refused(shell, "channel", *arguments)


def test_what_a_receiver_can_not(there: BrokerThread) -> None:
    shell = Shell(there.url)
    assert "is called: ping it from the other end" in refused(shell, "channel", "ping", "STOP.B")
    assert "the sending end decides" in refused(shell, "channel", "resolve", "STOP.B", "backout")
    assert shell.ok("channel", "start", "STOP.B") == "STOP.B: inactive\n"
    assert "exists already" in refused(shell, "channel", "define", "STOP.B", "receiver")


def test_channels_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(
        '[credentials.b]\nca_file = "ca.pem"\n[[channel]]\nname = "A.B"\ntype = "sender"\ncredentials = "b"\n'
        'connection = "amqps://b:5671"\ntransmission_queue = "B"\n'
    )
    config = load_config(file)
    assert config.channel[0].definition().connection == "amqps://b:5671"
    assert config.credentials["b"].ca_file == "ca.pem"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('[[channel]]\nname = "A.B"\ntype = "sender"\n', 1, "channel[0].transmission_queue"),
        ('[[channel]]\nname = "A.B"\ntype = "receiver"\nbatch_size = 0\n', 4, "channel[0].batch_size"),
        ('[[channel]]\nname = "A.B"\ntype = "friend"\n', 3, "channel[0].type"),
        ('[[channel]]\nname = "A.B"\ntype = "receiver"\ncredentials = "b"\n', 4, "no [credentials.b]"),
        ('[[channel]]\nname = "A"\ntype = "receiver"\n[[channel]]\nname = "A"\ntype = "receiver"\n', 5, "A"),
        ('[credentials.b]\nuser = "me"\n', 2, "without password_file"),
        ('[credentials.b]\npassword_file = "f"\n', 2, "without user"),
        ('[credentials.b]\nkey_file = "f"\n', 2, "without cert_file"),
        ('[credentials.b]\npassword = "secret"\n', 2, "unknown key"),
    ],
)
def test_what_the_configuration_can_not_say(tmp_path: Path, text: str, line: int, what: str) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load_config(file)
    assert what in str(refusal.value) and refusal.value.line == line, str(refusal.value)
