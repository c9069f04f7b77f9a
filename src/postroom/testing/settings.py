"""The configuration of a broker under test."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.model.rights import ADMINISTRATOR
from postroom.server.assembly import manager_options
from postroom.server.configuration.config import Config, QueueConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.testing.errors import ConfigInvalid

LEFT_OUT: Final[Mapping[str, str]] = {
    "data": "the ledger is in memory",
    "listen": "the broker listens on the loopback address; say port= for a certain one",
    "http": "nothing is served over HTTP",
    "log": "logging is Python's: the logger is named postroom",
    "message_log": "there is no file of the message log",
    "users": "say users={name: password}",
}
"""Tables of the configuration that a broker in memory has no use for."""

DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    # Nobody is disconnected while a debugger holds the test.
    "limits": {"idle_timeout_ms": 0},
    # Small files: they are in memory.
    "ledger": {"journal_file_bytes": 16 << 20, "reserve_bytes": 8 << 20},
}
FROZEN_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    # A send that waits for room would wait for the test to move the clock.
    "sending": {"send_timeout_ms": 0},
}


def make_config(config: Mapping[str, object], users: Mapping[str, str], port: int, *, frozen: bool) -> Config:
    """The configuration of a broker. Raises ConfigInvalid."""
    for key in config:
        if key in LEFT_OUT:
            raise ConfigInvalid(f"config: {key} can't be set for a broker in memory: {LEFT_OUT[key]}")
    tree: dict[str, object] = dict(config)
    for defaults in (DEFAULTS, FROZEN_DEFAULTS) if frozen else (DEFAULTS,):
        for table, settings in defaults.items():
            given = tree.get(table, {})
            if isinstance(given, Mapping):
                tree[table] = {**settings, **given}
    tree["users"] = {name: _hashed(name, password) for name, password in users.items()}
    if users and "role" not in tree:
        tree["role"] = [{"name": ADMINISTRATOR, "members": list(users)}]
    tree["listen"] = [ListenConfig(address=f"127.0.0.1:{port}", anonymous=not users)]
    try:
        return msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(f"config: {error}") from error


def make_options(config: Config, frozen: bool) -> ManagerOptions:
    """The queue manager's, so that what expires is noticed at its time, and nothing waits for a clock that
    stands: a consumer that gives a message back again and again is given it again without a pause."""
    options = replace(manager_options(config), expiry_scan_ms=1)
    return replace(options, release_backoff_ms=0) if frozen else options


def make_definition(name: str, settings: Mapping[str, object], options: ManagerOptions) -> QueueDefinition:
    """A queue with the settings that a table ``[[queue]]`` has; what they leave out is as the options of the
    queue manager say. Raises ConfigInvalid."""
    try:
        definition = msgspec.convert({**settings, "name": name}, QueueConfig).definition(options)
        definition.check()
    except (msgspec.ValidationError, DefinitionInvalid) as error:
        raise ConfigInvalid(f"queue {name!r}: {error}") from error
    return definition


def _hashed(name: str, password: object) -> str:
    if not isinstance(password, str):
        raise ConfigInvalid(f"users: the password of {name!r} is no str")
    return hash_password(password, iterations=MIN_ITERATIONS)  # it guards nothing
