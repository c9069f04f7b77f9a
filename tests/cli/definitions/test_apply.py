"""`postroom definitions apply` and `diff` at a running broker: what is refused, deleted, blocked, told."""

import json
from pathlib import Path
from typing import Any

import pytest

from postroom.server.configuration.config import QueueConfig
from postroom.server.configuration.dead_letter_handlers import DeadLetterHandlerConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

EXIT_FILE, EXIT_BROKER, EXIT_DIFFERENCES = 2, 3, 5


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(text: str) -> str:
        file = tmp_path / "file.toml"
        file.write_text(text)
        return str(file)

    return written


def queues(shell: Shell) -> list[object]:
    return [row["name"] for row in shell.json("queue", "list")]


def test_settings_change_and_only_those(broker: BrokerThread, shell: Shell, queue: str, write: Any) -> None:
    shell.ok("queue", "create", queue, "--set", "max_messages=5", "--set", "max_bytes=9")
    file = write(f'[[queue]]\nname = "{queue}"\nmax_messages = 6\nmax_bytes = 9\n')
    changed = f"queue {queue}: max_messages 5 → 6"
    done = shell.run("definitions", "diff", file)
    assert done.stdout.startswith(f"~ {changed}\n1 to change") and done.exit_code == EXIT_DIFFERENCES
    (step,) = map(json.loads, shell.run("definitions", "diff", file, "--json").stdout.splitlines())
    changes = {"max_messages": {"from": 5, "to": 6}}
    assert step == {"action": "change", "kind": "queue", "name": queue, "changes": changes}
    (result,) = shell.json("definitions", "apply", file)
    assert result == {**step, "state": "done"}
    assert shell.ok("definitions", "apply", file) == "nothing to do\n"
    shell.ok("definitions", "apply", write(f'[[queue]]\nname = "{queue}"\n'))
    (found,) = shell.json("queue", "list", queue)
    assert (found["max_messages"], found["max_bytes"]) == (-1, -1)


def test_what_attaching_has_made_stays_once_a_file_has_it(
    broker: BrokerThread, shell: Shell, queue: str, write: Any
) -> None:
    shell.ok("put", queue, "x")
    assert queue not in shell.ok("definitions", "export")
    assert queue in shell.ok("definitions", "export", "--auto-created")
    file = write(f'[[queue]]\nname = "{queue}"\n')
    assert shell.ok("definitions", "apply", file).startswith(
        f"changed queue {queue}: auto_created true → false\n"
    )
    assert shell.ok("definitions", "diff", file).startswith("no differences")
    (found,) = shell.json("queue", "list", queue)
    assert found["auto_created"] is False and queue in shell.ok("definitions", "export")


def test_nothing_is_deleted_without_prune_and_no_messages_without_force(tmp_path: Path, write: Any) -> None:
    with BrokerThread(
        make_config(queue=[QueueConfig(name="configured")]), folder=tmp_path / "data"
    ) as broker:
        shell = Shell(broker.url)
        for name in ("full", "empty", "kept"):
            shell.ok("queue", "create", name)
        shell.ok("topic", "create", "news")
        shell.ok("put", "full", "a", "b")
        shell.ok("put", "attached", "c")
        file = write('[[queue]]\nname = "kept"\n')
        assert shell.ok("definitions", "diff", file) == "no differences; 3 not in the file (--prune)\n"
        assert shell.ok("definitions", "apply", file) == "nothing to do\n"
        assert shell.run("definitions", "apply", file, "--force").exit_code == EXIT_FILE
        pruned = shell.run("definitions", "apply", file, "--prune")
        assert pruned.exit_code == EXIT_DIFFERENCES
        assert pruned.stdout == "deleted queue empty\n1 deleted, 2 not done\n"
        configured, full = sorted(pruned.stderr.splitlines())
        assert full.startswith("not done: ! queue full (isn't in the file, and holds 2 messages: --force")
        assert "the next start would make it again" in configured
        forced = shell.run("definitions", "apply", file, "--prune", "--force")
        assert "deleted queue full (with 2 messages)\n" in forced.stdout
        assert sorted(map(str, queues(shell))) == ["attached", "configured", "kept"]
        assert shell.json("topic", "list") != []  # the file says nothing of topics
        shell.ok("definitions", "apply", write("topic = []\n"), "--prune")
        assert shell.json("topic", "list") == []


def test_a_name_can_go_from_one_kind_to_another(
    broker: BrokerThread, shell: Shell, queue: str, write: Any
) -> None:
    shell.ok("queue", "create", queue)
    text = f'[[topic]]\nname = "{queue}"\n'
    done = shell.run("definitions", "apply", write(text))
    assert (
        done.exit_code == EXIT_DIFFERENCES
        and f"queue '{queue}' has the name: delete that first" in done.stderr
    )
    others = "".join(f'[[queue]]\nname = "{each}"\n' for each in queues(shell) if each != queue)
    shell.ok("definitions", "apply", write((others or "queue = []\n") + text), "--prune")
    assert [row["name"] for row in shell.json("topic", "list", queue)] == [queue]


def test_what_can_not_change_on_a_running_broker_is_told(tmp_path: Path, write: Any) -> None:
    rules = tmp_path / "rules"
    rules.write_text("ACTION(RETRY)\n")
    handlers = [DeadLetterHandlerConfig(rules=str(rules), queue="dead")]
    with BrokerThread(make_config(dead_letter_handler=handlers), folder=tmp_path / "data") as broker:
        shell = Shell(broker.url)
        assert f'[[dead_letter_handler]]\nrules = "{rules}"\nqueue = "dead"\n' in shell.ok(
            "definitions", "export"
        )
        same = f'[[dead_letter_handler]]\nrules = "{rules}"\n'
        assert shell.ok("definitions", "diff", write(same)) == "no differences\n"
        shell.ok(
            "definitions", "apply", write('[[subscription]]\nname = "s"\ntopic = "a.*"\nshared = true\n')
        )
        text = (
            '[[dead_letter_handler]]\nrules = "other"\nqueue = "dead"\n'
            '[[subscription]]\nname = "s"\ntopic = "a.*"\nshared = true\nselector = "a = 1"\n'
            '[[channel]]\nname = "C"\ntype = "receiver"\nmessage_retry_exit = "os:system"\n'
            '[[user]]\nname = "ann"\n[[queue]]\nname = "made"\n'
        )
        done = shell.run("definitions", "apply", write(text))
        assert (
            done.exit_code == EXIT_DIFFERENCES
            and done.stdout == "created queue made\n1 created, 4 not done\n"
        )
        subscription, channel, handler, user = done.stderr.splitlines()
        assert (
            'selector "" → "a = 1" (selector can\'t change: delete it (what waits there is lost)'
            in subscription
        )
        assert "message_retry_exit is the configuration file's" in channel
        assert "put [[dead_letter_handler]] there, and start the broker again" in handler
        assert "make the first administrator with `postroom user add NAME --role administrator`" in user
        assert shell.json("user", "list") == [] and shell.json("channel", "list") == []


def guarded(*grants: str) -> Any:
    users = {name: hash_password(name, iterations=MIN_ITERATIONS) for name in ("root", "clerk")}
    roles = [
        RoleConfig(name="administrator", members=["root"]),
        RoleConfig(name="clerks", members=["clerk"], grants=list(grants)),
    ]
    return make_config(users=users, role=roles)


FILE = (
    '[[queue]]\nname = "a"\nmax_messages = 2\n[[queue]]\nname = "b"\nmax_messages = 2\n[[user]]\nname = "u"\n'
)


def test_without_a_right_it_stops_and_says_what_is_done(tmp_path: Path, write: Any) -> None:
    rights = ("inquire on queue manager", "inquire on #", "alter on b")
    with BrokerThread(guarded(*rights), folder=tmp_path / "data") as broker:
        root, clerk = (Shell(f"amqp://{user}:{user}@{broker.address}") for user in ("root", "clerk"))
        root.ok("queue", "create", "a")
        root.ok("queue", "create", "b")
        done = clerk.run("definitions", "apply", write(FILE))
        assert done.exit_code == EXIT_BROKER and done.stdout == "1 failed, 2 not done\n"
        seen, failed, not_done, user = done.stderr.splitlines()
        assert seen == "users and roles may not be seen by this user (administer-users)"
        assert (
            failed.startswith("failed: ~ queue a: max_messages -1 → 2: ")
            and "no right 'alter' on 'a'" in failed
        )
        assert not_done == "not done: ~ queue b: max_messages -1 → 2"
        assert "needs administer-users on queue manager" in user
        assert [row["max_messages"] for row in root.json("queue", "list")] == [-1, -1]
        gone_on = clerk.run("definitions", "apply", write(FILE), "--keep-going")
        assert gone_on.stdout == "changed queue b: max_messages -1 → 2\n1 changed, 1 failed, 1 not done\n"
        assert sorted(str(row["max_messages"]) for row in root.json("queue", "list")) == ["-1", "2"]
        assert "[[user]]" not in clerk.ok("definitions", "export")
        assert root.run("definitions", "apply", write(FILE)).exit_code == 0


def test_who_sees_too_little_hears_it(tmp_path: Path, write: Any) -> None:
    with BrokerThread(
        guarded("inquire on queue manager", "inquire on b"), folder=tmp_path / "data"
    ) as broker:
        root, clerk = (Shell(f"amqp://{user}:{user}@{broker.address}") for user in ("root", "clerk"))
        root.ok("queue", "create", "a")
        assert (
            "1 queues and subscriptions may not be seen"
            in clerk.run("definitions", "diff", write(FILE)).stderr
        )
    with BrokerThread(guarded("inquire on #"), folder=tmp_path / "other") as broker:
        clerk = Shell(f"amqp://clerk:clerk@{broker.address}")
        done = clerk.run("definitions", "export")
        assert done.exit_code == EXIT_BROKER and "no right 'inquire' on queue manager" in done.stderr


def test_members_come_and_go_and_the_last_administrator_stays(tmp_path: Path, write: Any) -> None:
    with BrokerThread(guarded("get on x"), folder=tmp_path / "data") as broker:
        root = Shell(f"amqp://root:root@{broker.address}")
        text = '[[role]]\nname = "r"\nmembers = {}\n[[user]]\nname = "u"\n'
        text += '[[role]]\nname = "clerks"\nmembers = ["clerk", "u"]\ngrants = ["get on x"]\n'
        root.ok("definitions", "apply", write(text.format('["u"]')))
        (user,) = [row for row in root.json("user", "list") if row["name"] == "u"]
        assert user["roles"] == ["clerks", "r"]
        assert root.ok("definitions", "diff", write(text.format('["u"]'))) == "no differences\n"
        assert root.ok("definitions", "apply", write(text.format("[]"))).startswith(
            'changed user u: roles ["clerks", "r"] → ["clerks"]\n'
        )
        blocked = root.run("definitions", "diff", write('[[role]]\nname = "clerks"\ngrants = ["put on x"]\n'))
        assert (
            "! role clerks" in blocked.stdout
            and "is the configuration file's: change it there" in blocked.stdout
        )


def test_who_applies_it_stays(tmp_path: Path, write: Any) -> None:
    with BrokerThread(guarded("get on x"), folder=tmp_path / "data") as broker:
        root = Shell(f"amqp://root:root@{broker.address}")
        root.ok("user", "add", "deploy", "--stdin", "--role", "administrator", stdin="deploy\n")
        root.ok("queue", "create", "old")
        root.ok("role", "add", "kept")
        deploy = Shell(f"amqp://deploy:deploy@{broker.address}")
        done = deploy.ok("definitions", "diff", write("user = []\nqueue = []\n"))
        assert done.startswith("no differences; 2 not in the file")
        pruned = deploy.run("definitions", "apply", write("user = []\nqueue = []\n"), "--prune")
        assert (
            pruned.exit_code == EXIT_DIFFERENCES
            and pruned.stdout == "deleted queue old\n1 deleted, 1 not done\n"
        )
        assert "user deploy (isn't in the file, and is who applies it" in pruned.stderr
        assert "kept" in [row["name"] for row in root.json("role", "list")]


def test_a_broker_that_is_not_there(write: Any) -> None:
    done = Shell("amqp://127.0.0.1:1").run("definitions", "diff", write(FILE))
    assert done.exit_code == EXIT_BROKER and "no broker listens" in done.stderr
