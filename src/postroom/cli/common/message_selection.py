"""Which messages a command means, and pages of what a query finds: for all commands about messages."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

import click

from postroom.amqp.encoding.types import ULong
from postroom.cli.groups import Option, number_option
from postroom.client import ManagementClient
from postroom.model.entity_types import MESSAGE_TYPE

STATES: Final = (
    *("visible", "send", "receive", "transaction", "ordered"),
    *("delayed", "expired", "redelivery_count_exceeded", "paused", "locked"),
)
PAGE_ROWS: Final = 500


def _ulong(text: str) -> ULong:
    value = int(text)
    if not 0 <= value < 1 << 64:
        raise ValueError("it is a number from 0 to 2^64 - 1")
    return ULong(value)


_TYPED_IDS: Final[Mapping[str, Callable[[str], object]]] = {
    "ID:AMQP_UUID:": UUID,
    "ID:AMQP_ULONG:": _ulong,
    "ID:AMQP_BINARY:": bytes.fromhex,
}
"""Message ids that are no strings, as JMS writes them."""

Command = TypeVar("Command", bound=Callable[..., Any])


def selector_option(command: Command) -> Command:
    """The option ``--selector``."""
    return click.option(
        "--selector", default="", metavar="TEXT", help="Only messages that this JMS selector means."
    )(command)


def state_option(command: Command) -> Command:
    """The option ``--state``, which may be given often."""
    return click.option(
        "states", "--state", multiple=True, type=click.Choice(STATES), help="Only messages in these states."
    )(command)


def which_options(command: Command) -> Command:
    """``--selector``, ``--id``, ``--serial``, ``--all``: one of them."""
    command = click.option("every", "--all", is_flag=True, help="All messages.")(command)
    command = serial_option()(command)
    command = click.option("--id", "message_id", metavar="ID", help="Messages with this message id.")(command)
    return selector_option(command)


def serial_option(required: bool = False) -> Option:
    """The option ``--serial``."""
    return number_option("--serial", help="The message with this serial.", required=required)


def which(selector: str, message_id: str | None, serial: int | None, every: bool) -> dict[str, object]:
    """The arguments for what `which_options` were given. Raises UsageError unless it is exactly one."""
    if sum((bool(selector), message_id is not None, serial is not None, every)) != 1:
        raise click.UsageError("say which messages: one of --selector, --id, --serial and --all")
    if message_id is not None:
        return {"message_id": id_value(message_id)}
    if serial is not None:
        return {"serial": serial}
    return {"selector": selector}


def id_value(text: str, of: str = "--id") -> object:
    """A message id as it goes over the wire: a string, or what JMS writes as ``ID:AMQP_UUID:…`` and so on.

    ``of`` is the option or argument that says it.
    """
    for prefix, read in _TYPED_IDS.items():
        if text.startswith(prefix):
            try:
                return read(text.removeprefix(prefix))
            except ValueError as error:
                raise click.BadParameter(f"{text!r} is no message id: {error}", param_hint=of) from error
    return text


def id_text(value: object) -> str:
    """The reverse of `id_value`; "" for none."""
    if isinstance(value, UUID):
        return f"ID:AMQP_UUID:{value}"
    if isinstance(value, bytes):
        return f"ID:AMQP_BINARY:{value.hex().upper()}"
    if isinstance(value, int):
        return f"ID:AMQP_ULONG:{value}"
    return "" if value is None else str(value)


class Found:
    """What a query has found, read page by page. A context manager: the cursor is closed at its end."""

    def __init__(
        self, management: ManagementClient, queue: str, arguments: Mapping[str, object], bodies: bool
    ) -> None:
        self._management: Final = management
        self._queue: Final = queue
        self._bodies: Final = bodies
        opened = self._request("OPEN-CURSOR", dict(arguments))
        self._cursor: Final = opened["cursor"]
        self.count: Final = int(str(opened["count"]))

    def __enter__(self) -> "Found":
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None:
            self._request("CLOSE-CURSOR", {"cursor": self._cursor})

    def rows(self, limit: int = 0) -> Iterator[dict[str, Any]]:
        """The messages that are still there, up to ``limit`` (0: all)."""
        at = given = 0
        while at < self.count and (limit == 0 or given < limit):
            wanted = min(PAGE_ROWS, limit - given) if limit else PAGE_ROWS
            arguments = {"cursor": self._cursor, "offset": at, "count": wanted, "bodies": self._bodies}
            page = self._request("READ-CURSOR", arguments)["messages"]
            assert isinstance(page, list) and page
            at += len(page)
            for row in page:
                if not row.get("gone"):
                    given += 1
                    yield row

    def _request(self, operation: str, arguments: dict[str, object]) -> dict[str, object]:
        reply = self._management.request(operation, kind=MESSAGE_TYPE, name=self._queue, body=arguments)
        return reply.attributes()
