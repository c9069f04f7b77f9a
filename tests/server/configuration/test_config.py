"""Configuration files: what is accepted, and that each defect is reported with its file, line and key."""

from pathlib import Path
from typing import Any

import pytest

from postroom.server.addresses import is_loopback, split_address
from postroom.server.configuration.config import Config
from postroom.server.configuration.config_file import ConfigError, load_config
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import hash_password

SCRAM, SCRYPT = hash_password("x"), hash_password("x", "scrypt")

BAD_FILES = {
    "unknown key at the top": ("\nx = 1\n", 2, "x", "unknown key"),
    "unknown key in a table": ("[limits]\n\nfoo = 1\n", 3, "limits.foo", "unknown key"),
    "wrong type": (
        "[limits]\nmax_frame_bytes = 'a'\n",
        2,
        "limits.max_frame_bytes",
        "Expected `int`, got `str`",
    ),
    "below its bound": (
        "[limits]\nmax_frame_bytes = 1\n",
        2,
        "limits.max_frame_bytes",
        "Expected `int` >= 512",
    ),
    "unfinished header": ("\n[limits\n", 2, "", "Expected ']' at the end of a table declaration (column 8)"),
    "key twice": ("data = 'a'\ndata = 'b'\n", 2, "", "Cannot overwrite a value (column 11)"),
    "missing key": ("[[queue]]\nmax_bytes = 1\n", 1, "queue[0]", "the key 'name' is missing"),
    "empty name": ("[[queue]]\nname = ''\n", 2, "queue[0].name", "Expected `str` of length >= 1"),
    "reserved name": ("[[queue]]\nname = 'a'\n[[queue]]\nname = '$b'\n", 4, "queue[1].name", "is reserved"),
    "a collector that is no URL": (
        "[tracing]\n\nendpoint = 'collector:4317'\n",
        3,
        "tracing.endpoint",
        "give an http:// or https:// URL",
    ),
    "a collector without a path": (
        "[tracing]\nendpoint = 'http://collector:4318'\n",
        2,
        "tracing.endpoint",
        "ends in /v1/traces",
    ),
    "a collector's password in its URL": (
        "[tracing]\nendpoint = 'https://a:b@collector/v1/traces'\n",
        2,
        "tracing.endpoint",
        "headers_file",
    ),
    "a ratio above all": ("[tracing]\nratio = 1.5\n", 2, "tracing.ratio", "Expected `float` <= 1.0"),
    "no spans at all": ("[tracing]\nmax_spans = 0\n", 2, "tracing.max_spans", "Expected `int` >= 1"),
    "headers that aren't there": (
        "[tracing]\nheaders_file = '/nowhere/headers'\n",
        2,
        "tracing.headers_file",
        "can't be read",
    ),
    "authorities that aren't there": (
        "[tracing]\nca_file = '/nowhere/ca.pem'\n",
        2,
        "tracing.ca_file",
        "can't be read",
    ),
    "queue twice": ("[[queue]]\nname = 'a'\n\n[[queue]]\nname = 'a'\n", 5, "queue[1].name", "defined twice"),
    "password in clear": ("[users]\nann = 'secret'\n", 2, "users.ann", "make one with `postroom user hash`"),
    "password no text": ("[users]\nann = 3\n", 2, "users.ann", "Expected `str | array`, got `int`"),
    "no password at all": ("[users]\nann = []\n", 2, "users.ann", "is empty"),
    "users and no role": (f"[users]\nann = '{SCRAM}'\n", 1, "users", "nobody has any right"),
    "a role in itself": (
        "[[role]]\nname = 'a'\nmembers = ['b']\n[[role]]\nname = 'b'\nmembers = ['c', 'a']\n",
        3,
        "role[0].members",
        "role 'a' would have itself, by 'b'",
    ),
    "a role that is a user": (
        f"[users]\nann = '{SCRAM}'\n[[role]]\nname = 'ann'\nmembers = ['ann']\n",
        4,
        "role[0].name",
        "is a user",
    ),
    "a grant that is none": (
        "[[role]]\nname = 'a'\ngrants = ['put on x', 'fly on x']\n",
        3,
        "role[0].grants[1]",
        "'fly' is no right on 'x'",
    ),
    "an administrator with grants": (
        "[[role]]\nname = 'administrator'\ngrants = ['put on x']\n",
        3,
        "role[0].grants",
        "has every right",
    ),
    "a mechanism that is none": (
        "[[listen]]\nmechanisms = ['SCRAM-SHA-1']\n",
        2,
        "listen[0].mechanisms[0]",
        "Invalid enum value 'SCRAM-SHA-1'",
    ),
    "a mechanism that a user can't use": (
        f"[[listen]]\nmechanisms = ['SCRAM-SHA-512']\n[users]\nann = '{SCRAM}'\nbob = '{SCRYPT}'\n",
        2,
        "listen[0].mechanisms",
        "'ann' of [users] has no SCRAM-SHA-512 verifier",
    ),
    "passwords in clear to another machine": (
        f"[[listen]]\naddress = '0.0.0.0:5672'\n[users]\nann = '{SCRAM}'\nbob = '{SCRYPT}'\n",
        1,
        "listen[0]",
        "and 'bob' of [users] has no SCRAM verifier",
    ),
    "port no number": ("[[listen]]\naddress = 'a:b'\n", 2, "listen[0].address", "port 'b' is not a number"),
    "port too large": ("[[listen]]\naddress = 'a:65536'\n", 2, "listen[0].address", "from 0 to 65535"),
    "bare IPv6": ("[[listen]]\naddress = '::1:5672'\n", 2, "listen[0].address", "into brackets"),
    "no listener": ("listen = []\n", 1, "listen", "is empty"),
    "key without certificate": (
        "[[listen]]\n[[listen]]\ntls_key = 'k'\n",
        3,
        "listen[1].tls_key",
        "certificate",
    ),
    "a path of WebSocket that is none": (
        "[[listen]]\nwebsocket = { path = 'amqp' }\n",
        2,
        "listen[0].websocket.path",
        "begins with '/'",
    ),
    "an origin with a path": (
        "[[listen]]\n[listen.websocket]\norigins = ['http://a', 'https://b/c']\n",
        3,
        "listen[0].websocket.origins[1]",
        "'https://b/c' is no origin",
    ),
    "WebSocket as a switch": (
        "[[listen]]\nwebsocket = true\n",
        2,
        "listen[0].websocket",
        "Expected `object | null`, got `bool`",
    ),
    "quota out of bounds": (
        "[[quota]]\nname = 'a'\nbytes_maximum = -2\n",
        3,
        "quota[0].bytes_maximum",
        "Expected `int` >= -1",
    ),
    "quota twice": ("[[quota]]\nname = 'a'\n[[quota]]\nname = 'a'\n", 4, "quota[1].name", "defined twice"),
    "quota policy": ("[[quota]]\nname = 'a'\npolicy = 'lifo'\n", 3, "quota[0].policy", "Invalid enum value"),
    "a queue manager's name with a mark": ("\ncontainer_id = 'a@b'\n", 2, "container_id", "may not have '@'"),
    "hops out of bounds": ("[queue_manager]\nmax_hops = 0\n", 2, "queue_manager.max_hops", ">= 1"),
    "usage": ("[[queue]]\nname = 'a'\nusage = 'x'\n", 3, "queue[0].usage", "Invalid enum value"),
    "a topic for transmission": (
        "[[topic]]\nname = 'a'\nusage = 'transmission'\n",
        3,
        "topic[0].usage",
        "only queues",
    ),
    "remote queue of nothing": (
        "[[remote_queue]]\nname = 'a'\n",
        1,
        "remote_queue[0].remote_queue",
        "neither",
    ),
    "remote queue reserved": (
        "[[remote_queue]]\nname = 'postroom.a'\nremote_queue = 'b'\n",
        2,
        "remote_queue[0].name",
        "is reserved",
    ),
    "remote queue twice": (
        2 * "[[remote_queue]]\nname = 'a'\nremote_queue = 'b'\n",
        5,
        "remote_queue[1].name",
        "defined twice",
    ),
    "two quotas at once": (
        "[[queue]]\nname = 'a'\nmax_bytes = 5\nquota = 'b'\n",
        4,
        "queue[0].quota",
        "one quota only",
    ),
    "thresholds out of order": (
        "[[queue]]\nname = 'a'\nmessages_threshold_high = 5\nmessages_threshold_low = 6\n",
        4,
        "queue[0].messages_threshold_low",
        "must not be above messages_threshold_high (5)",
    ),
    "schedule": (
        "[[queue]]\nname = 'a'\ndelivery_schedule = '0 0 * * * 13 *'\n",
        3,
        "queue[0].delivery_schedule",
        "character 11: month 13 is not from 1 to 12",
    ),
    "priority override": (
        "[[queue]]\nname = 'a'\npriority_override = 10\n",
        3,
        "queue[0].priority_override",
        "Expected `int` <= 9",
    ),
    "thresholds of the broker": (
        "[sending]\nmax_bytes = 10\nbytes_threshold_low = 1\nbytes_threshold_high = 11\n",
        4,
        "sending.bytes_threshold_high",
        "must not be above the quota's maximum (10)",
    ),
    "flow control upside down": ("[flow_control]\nminimum = 600\n", 2, "flow_control.minimum", "above the"),
    "inline table": ("listen = [\n{address='h:2'},\n{adres='x'}]\n", 1, "listen[1].adres", "unknown key"),
    "after a long string": (
        "container_id = '''\n[limits]\n'''\n[limits]\nfoo = 1\n",
        5,
        "limits.foo",
        "unknown",
    ),
    "log level": ("[log]\nlevel = 'loud'\n", 2, "log.level", "Invalid enum value 'loud'"),
    "table for a value": ("[data]\nx = 1\n", 1, "data", "Expected `str`, got `object`"),
    "value for a table": ("limits = 3\n", 1, "limits", "Expected `object`, got `int`"),
    "HTTP for all without TLS": (
        '[http]\naddress = "0.0.0.0:8161"\n',
        2,
        "http.address",
        "give tls_certificate, or plain = true",
    ),
    "HTTP with a key alone": ('[http]\ntls_key = "k"\n', 2, "http.tls_key", "without tls_certificate"),
    "HTTP nowhere": ('[http]\naddress = ":1"\n', 2, "http.address", "has no host"),
    "HTTP without requests": ("[http]\nmax_requests = 0\n", 2, "http.max_requests", "`int` >= 1"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_defect_is_reported_with_line_and_key(case: str, tmp_path: Path) -> None:
    text, line, key, what = BAD_FILES[case]
    file = tmp_path / "postroom.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert (caught.value.line, caught.value.key) == (line, key)
    assert what in caught.value.what
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: can't be read: No such file"):
        load_config(tmp_path / "none.toml")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_bytes(b"data = 'x'\n\xff\xfe")
    with pytest.raises(ConfigError, match=r"postroom\.toml:2: is not UTF-8: byte 0xff"):
        load_config(file)


def test_without_a_file_loopback_needs_no_password() -> None:
    config = Config()
    assert [listener.address for listener in config.listen] == ["127.0.0.1:5672"]
    assert config.listen[0].allows_anonymous
    assert config.data_folder == Path("postroom-data")


def test_everything_can_be_set(tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(
        f"""
        data = "/var/lib/postroom"
        container_id = "here"
        [[listen]]
        address = "0.0.0.0:5672"
        [users]
        ann = "{hash_password("x")}"
        [[role]]
        name = "administrator"
        members = ["ann"]
        [limits]
        max_message_bytes = 1000
        [auto_create]
        enabled = false
        [log]
        json = true
        [[queue]]
        name = "orders"
        dead_letter_queue = "dead"
        """
    )
    config = load_config(file)
    assert not config.listen[0].allows_anonymous
    assert config.queue[0].dead_letter_queue == "dead"
    assert config.limits.max_message_bytes == 1000


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("localhost", "localhost", 5672), ("[::1]:7", "::1", 7), ("[::1]", "::1", 5672), ("h:0", "h", 0)],
)
def test_addresses(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)


def test_http_is_off_unless_there_is_a_table_for_it() -> None:
    assert Config().http is None
    assert HttpConfig().serves_open_metrics
    assert not HttpConfig(address="0.0.0.0", plain=True).serves_open_metrics
    assert HttpConfig(address="[::1]:9").serves_open_metrics


def test_loopback_addresses() -> None:
    assert is_loopback("127.9.9.9") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.org")


def test_a_listener_may_ask_for_passwords_on_loopback() -> None:
    assert not ListenConfig(anonymous=False).allows_anonymous


@pytest.mark.parametrize(
    ("listen", "users", "offered"),
    [
        ({}, {}, ["PLAIN", "ANONYMOUS"]),
        ({"anonymous": False}, {"ann": (SCRAM,)}, ["SCRAM-SHA-256", "PLAIN"]),
        ({"anonymous": False}, {"ann": (SCRAM,), "bob": (SCRYPT,)}, ["PLAIN"]),
        ({"address": "0.0.0.0:5672"}, {"ann": (SCRAM,)}, ["SCRAM-SHA-256"]),
        (
            {"address": "0.0.0.0:5672", "tls_certificate": "c"},
            {"ann": (SCRAM,)},
            ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN"],
        ),
        ({"address": "0.0.0.0:5672", "mechanisms": ["PLAIN"]}, {"ann": (SCRAM,)}, ["PLAIN"]),
        ({"mechanisms": ["SCRAM-SHA-256"]}, {"ann": (SCRAM,)}, ["SCRAM-SHA-256", "ANONYMOUS"]),
    ],
)
def test_what_a_listener_offers(
    listen: dict[str, Any], users: dict[str, tuple[str, ...]], offered: list[str]
) -> None:
    assert ListenConfig(**listen).sasl_mechanisms(users) == offered
