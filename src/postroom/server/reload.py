"""The configuration read anew while the broker runs (SIGHUP): users, roles, files of TLS, and what the file
defines.

A file that can't be used changes nothing, nor does one with a certificate or revocation list that can't.
Where the queue manager refuses a definition, as of a queue that is in use, those behind it wait for the next
time. What needs a restart is named in the log.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from postroom.manager.security.acts import RELOAD, Act
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE
from postroom.server.assembly import define_channels, define_queues
from postroom.server.configuration.config import Config
from postroom.server.configuration.config_file import ConfigError
from postroom.server.configuration.listening import ListenConfig
from postroom.server.connection.broker import Broker
from postroom.server.exits import StartError
from postroom.server.listening.listeners import Listener
from postroom.server.logs import log
from postroom.server.management.request import BAD_REQUEST, OK

if TYPE_CHECKING:
    from postroom.server.listening.tls import LoadedTls

DEFINING: Final = ("quota", "queue", "topic", "remote_queue", "channel")
"""Tables that define things, which take what is new in them; what is in them no more stays."""
RELOADED: Final = (
    *("users", "role", "certificate_user", "sign_in_rule", "sign_in", "oauth", "user_limit"),
    *DEFINING,
)
"""What needs no restart, beside the files of TLS and the limits of listeners."""


class Reloader:
    """Reads the configuration of one broker anew."""

    def __init__(self, broker: Broker, listeners: list[Listener], read: Callable[[], Config]) -> None:
        """``listeners``: that of HTTP, too; ``read`` gives the configuration as it is now, raises
        `ConfigError`."""
        self._broker: Final = broker
        self._listeners: Final = listeners
        self._read: Final = read
        self._config = broker.config

    def reload(self, now_us: int) -> None:
        """Do so; whatever comes of it is in the log, and an act."""
        try:
            config = self._read()
            renewed = self._renewed(config)
            self._broker.tokens.configure(config.oauth)
            self._broker.sign_ins.take_tokens(config.oauth is not None)
        except (ConfigError, StartError) as error:
            log(logging.ERROR, "reload-refused", reason=str(error))
            self._record(BAD_REQUEST, f"nothing was changed: {error}", now_us)
            return
        self._broker.access.configure(config)
        self._broker.access.changed()
        self._broker.traffic.configure(config)
        self._broker.sign_ins.failures.configure(config.sign_in)
        for listener, loaded in renewed:
            listener.renew(loaded)
        try:
            define_queues(config, self._broker.manager, now_us)
            define_channels(config, self._broker.channels, now_us)
        except StartError as error:
            log(logging.ERROR, "reload-incomplete", reason=str(error))
            self._record(BAD_REQUEST, f"users, roles and certificates were taken: {error}", now_us)
            return
        changed = [name for name in Config.__struct_fields__ if self._differs(config, name)]
        waiting = [name for name in changed if name not in RELOADED]
        self._config = config
        log(
            logging.WARNING if waiting else logging.INFO,
            "reloaded",
            changed=",".join(name for name in changed if name in RELOADED) or "nothing",
            certificates=len(renewed),
            needs_restart=",".join(waiting) or "nothing",
        )
        self._record(OK, f"needs a restart: {', '.join(waiting)}" if waiting else "reloaded", now_us)

    def _renewed(self, config: Config) -> "list[tuple[Listener, LoadedTls]]":
        """The TLS listeners that are there, with what the files hold that ``config`` has for them; raises
        `StartError`."""
        by_address = {listen.address: listen for listen in _all_listen(config)}
        renewed = []
        for listener in self._listeners:
            listen = by_address.get(listener.config.address)
            if listener.tls is not None and listen is not None and _kind(listen) == _kind(listener.config):
                from postroom.server.listening.tls import load_tls

                renewed.append((listener, load_tls(listen)))
        return renewed

    def _differs(self, config: Config, name: str) -> bool:
        before, now = getattr(self._config, name), getattr(config, name)
        if name == "listen":  # a renewed file has its old name
            return [_kind(each) for each in before] != [_kind(each) for each in now]
        return bool(before != now)

    def _record(self, status: int, what: str, now_us: int) -> None:
        act = Act("", "", "", RELOAD, BROKER_TYPE, BROKER_NAME, status, what)
        self._broker.access.acts.done(act, now_us)


def _all_listen(config: Config) -> list[ListenConfig]:
    return [*config.listen, *([] if config.http_served is None else [config.http_served.listen()])]


def _kind(listen: ListenConfig) -> tuple[object, ...]:
    """All but the names of files: what can't change while it listens."""
    is_tls = listen.tls_certificate is not None
    kind = (listen.address, listen.anonymous, is_tls, listen.client_certificate)
    return (*kind, listen.mechanisms, listen.websocket)
