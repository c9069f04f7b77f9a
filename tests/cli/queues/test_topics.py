"""`postroom topic` and `postroom subscription`, and topics of the configuration."""

from pathlib import Path

import pytest

from postroom.server.configuration.config import TopicConfig
from postroom.server.configuration.config_file import ConfigError, load_config
from postroom.server.exits import StartError
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import receiving
from tests.server.peers import EnginePeer
from tests.server.topic_peer import DURABLE, close, publish, topic_source

pytestmark = pytest.mark.sockets


@pytest.fixture
def topic(queue: str) -> str:
    return f"topic.{queue}"


def test_topics_are_created_listed_deleted(shell: Shell, topic: str) -> None:
    shell.ok("topic", "create", topic, "--set", "max_messages=10")
    (listed,) = shell.json("topic", "list", topic)
    assert (listed["name"], listed["max_messages"], listed["subscriptions"]) == (topic, 10, 0)
    assert "published" in shell.ok("topic", "list", topic)
    again = shell.run("topic", "create", topic)
    assert again.exit_code == 3 and "exists already" in again.stderr
    shell.ok("topic", "delete", topic)
    assert shell.json("topic", "list", topic) == []


@pytest.mark.parametrize("name", ["a.*", "#"])
def test_a_topic_with_a_wildcard_is_refused(shell: Shell, name: str) -> None:
    result = shell.run("topic", "create", name)
    assert result.exit_code == 3 and "pattern of topics" in result.stderr


def test_subscriptions_are_listed_and_deleted_when_not_in_use(
    broker: BrokerThread, shell: Shell, topic: str
) -> None:
    with EnginePeer(broker.port, container_id="cli") as peer:
        link = receiving(peer.open(), "sub", topic_source(topic, **DURABLE))
        publish(peer, topic, "1", "2")
        (listed,) = shell.json("subscription", "list", topic)
        name = f"{topic}::cli/sub"
        assert (listed["name"], listed["durable"], listed["messages_current"]) == (name, True, 2)
        assert "durable" in shell.ok("subscription", "list", topic)
        (of_topic,) = shell.json("topic", "list", topic)
        counted = ("subscriptions", "consumers", "messages_received", "messages_unrouted")
        assert [of_topic[counter] for counter in counted] == [1, 1, 2, 0]
        sums = ("messages_current", "messages_pending", "bytes_pending", "messages_consumed")
        assert [of_topic[counter] for counter in sums] == [2, 0, 0, 0]
        in_use = shell.run("subscription", "delete", name)
        assert in_use.exit_code == 3 and "in use" in in_use.stderr
        refused = shell.run("topic", "delete", topic, "--if-unused")
        assert refused.exit_code == 3 and "1 consumers" in refused.stderr
        close(peer, link, closed=False)
        shell.ok("subscription", "delete", name)
    assert shell.json("subscription", "list", topic) == []
    assert shell.run("subscription", "delete", name).exit_code == 3


def test_subscriptions_are_not_among_the_queues(broker: BrokerThread, shell: Shell, topic: str) -> None:
    with EnginePeer(broker.port, container_id="cli") as peer:
        receiving(peer.open(), "sub", topic_source(topic, **DURABLE))
        assert [each["name"] for each in shell.json("queue", "list", topic)] == []


def test_topics_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text('[[topic]]\nname = "news"\nmax_messages = 5\n')
    config = load_config(file)
    assert config.topic == [TopicConfig(name="news", max_messages=5)]
    with BrokerThread(make_config(topic=config.topic)) as broker:
        settings = broker.call(lambda b: b.manager.topic("news").definition)
        assert (settings.kind, settings.max_messages) == ("topic", 5)


@pytest.mark.parametrize("name", ["a.*", "postroom.x", "a::b"])
def test_names_that_no_topic_can_have(tmp_path: Path, name: str) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(f'[[topic]]\nname = "{name}"\n')
    with pytest.raises(ConfigError, match=r"postroom.toml:\d+: topic\[0\]"):
        load_config(file)


def test_a_name_of_a_queue_and_a_topic_is_refused_at_the_start() -> None:
    config = make_config(("both",), topic=[TopicConfig(name="both")])
    with pytest.raises((StartError, AssertionError), match="both"), BrokerThread(config):
        pass


def test_put_and_get_with_topics(shell: Shell, topic: str) -> None:
    assert shell.run("get", topic, "--topic", "--subscription", "cli").exit_code == 4
    shell.ok("put", topic, "--topic", "a", "b")
    assert shell.ok("get", topic, "--topic", "--subscription", "cli").split() == ["a"]
    (kept,) = shell.json("subscription", "list", topic)
    assert (kept["name"], kept["messages_current"]) == (f"{topic}::cli", 1)
    assert "b" in shell.ok("browse", f"{topic}::cli")
    assert shell.ok("get", f"{topic}::cli").split() == ["b"]
    assert shell.run("get", topic, "--topic").exit_code == 4
    assert "--topic" in shell.run("get", topic, "--subscription", "cli").stderr
    assert shell.run("put", topic, "x").exit_code == 3
