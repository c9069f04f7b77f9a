"""`postroom store`: the verbs of the message store of MQ Everyplace on a queue of a running broker.

A message is named by its unique id: origin queue manager and time, written ORIGIN:TIME.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from postroom.cli.common.broker_connection import EXIT_NOTHING, connected, json_option, requested, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.message_files import message_fields
from postroom.cli.common.message_selection import id_text, id_value
from postroom.cli.common.names import check_there
from postroom.cli.common.tables import age_s, show_rows, shown
from postroom.cli.groups import number_option
from postroom.client import (
    Message,
    MessageFilter,
    MessageStore,
    NoMatchingMessageException,
    StoredMessage,
    UniqueId,
)
from postroom.model.entity_types import QUEUE_TYPE, STORE_HOLDER_TYPE

Command = TypeVar("Command", bound=Callable[..., Any])


class _UniqueIdType(click.ParamType[UniqueId]):
    """ORIGIN:TIME."""

    name = "ORIGIN:TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UniqueId:
        if isinstance(value, UniqueId):
            return value
        origin, colon, time = str(value).rpartition(":")
        if not colon or not origin or not time.lstrip("-").isdecimal():
            self.fail(f"{value!r} is not ORIGIN:TIME", param, ctx)
        return UniqueId(origin, int(time))


UNIQUE_ID: Final = _UniqueIdType()

uid_option = click.option("--uid", type=UNIQUE_ID, help="The unique id of the message.")
needed_uid_option = click.option("--uid", type=UNIQUE_ID, required=True, help="The unique id of the message.")
confirm_option = number_option(
    "--confirm-id", default=0, least=0, help="Hold under this id until confirmed; 0: don't."
)
lock_option = number_option("--lock-id", help="Of a browse with lock.")


def filter_options(command: Command) -> Command:
    """What a message must be like."""
    for name, what in (("correlation-id", "correlation id"), ("message-id", "message id")):
        command = click.option(f"--{name}", metavar="ID", help=f"Its {what}.")(command)
    command = number_option("--priority", least=0, most=9, help="Its priority.")(command)
    return lock_option(uid_option(command))


def _filter(
    uid: UniqueId | None,
    message_id: str | None,
    correlation_id: str | None,
    priority: int | None,
    lock_id: int | None,
) -> MessageFilter:
    ids = {"message_id": _id(message_id), "correlation_id": _id(correlation_id)}
    return MessageFilter(unique_id=uid, priority=priority, lock_id=lock_id, **ids)


def _id(text: str | None) -> Any:
    return None if text is None else id_value(text)


@contextmanager
def _store(url: str, queue: str) -> Iterator[MessageStore]:
    """The message store of a queue; that there is no such message is exit code 4."""
    with connected(url, queue) as connection:
        try:
            yield connection.create_message_store(queue)
        except NoMatchingMessageException as error:
            click.echo(" ".join(str(error).split()), err=True)
            raise SystemExit(EXIT_NOTHING) from error


def _fields(stored: StoredMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"uid": f"{stored.unique_id.origin}:{stored.unique_id.time}"}
    for name in ("message_id", "correlation_id"):
        if getattr(stored, name) is not None:
            fields[name] = id_text(getattr(stored, name))
    fields["priority"] = stored.priority
    if stored.message is not None:
        decoded = message_fields(stored.message)
        fields |= {name: value for name, value in decoded.items() if name not in fields}
    return fields


def _print(stored: StoredMessage, as_json: bool) -> None:
    fields = _fields(stored)
    if as_json:
        click.echo(json.dumps(fields, default=str, ensure_ascii=False))
        return
    body = fields.get("body", fields.get("body_base64", ""))
    click.echo(f"{fields['uid']}  {fields.get('message_id', '')}  {body}")


def _done(verb: str, count: int, as_json: bool) -> None:
    click.echo(json.dumps({"count": count}) if as_json else f"{verb} {count} messages")


@click.group(cls=BrokerGroup, names=QUEUE_TYPE)
def store() -> None:
    """The message store of a queue: put, get and browse in two steps, with confirm ids and locks."""


@store.command("put")
@click.argument("queue")
@click.argument("body")
@uid_option
@click.option("--message-id", metavar="ID", help="Its message id.")
@click.option("--correlation-id", metavar="ID", help="Its correlation id.")
@number_option("--priority", least=0, most=9, default=4, show_default=True, help="Its priority.")
@confirm_option
@click.option("--resend", is_flag=True, help="The answer to an earlier put was lost: replace that copy.")
@url_option
@json_option
def put(
    queue: str,
    body: str,
    uid: UniqueId | None,
    message_id: str | None,
    correlation_id: str | None,
    priority: int,
    confirm_id: int,
    resend: bool,
    url: str,
    as_json: bool,
) -> None:
    """Put a message with BODY on QUEUE (putMessage) and print its unique id."""
    ids = {"message_id": _id(message_id), "correlation_id": _id(correlation_id)}
    message = Message(body, priority=priority, **ids)
    with _store(url, queue) as messages:
        given = messages.put(message, confirm_id=confirm_id, unique_id=uid, resend=resend)
    text = f"{given.origin}:{given.time}"
    click.echo(json.dumps({"uid": text}) if as_json else text)


@store.command("get")
@click.argument("queue")
@filter_options
@confirm_option
@url_option
@json_option
def get(queue: str, confirm_id: int, url: str, as_json: bool, **wanted: Any) -> None:
    """Get the first message that matches (getMessage). Exit code 4: there is none."""
    with _store(url, queue) as messages:
        _print(messages.get(_filter(**wanted), confirm_id=confirm_id), as_json)


@store.command("wait")
@click.argument("queue")
@filter_options
@confirm_option
@number_option(
    "--timeout-s", default=60.0, show_default=True, least=0, fractions=True, help="Wait so long at most."
)
@url_option
@json_option
def wait(queue: str, confirm_id: int, timeout_s: float, url: str, as_json: bool, **wanted: Any) -> None:
    """Get a message that matches, now or when it comes (waitForMessage). Exit code 4: none came."""
    with _store(url, queue) as messages:
        _print(messages.wait(_filter(**wanted), timeout_s=timeout_s, confirm_id=confirm_id), as_json)


@store.command("browse")
@click.argument("queue")
@filter_options
@click.option("--just-uid", is_flag=True, help="Ids only.")
@url_option
@json_option
def browse(queue: str, just_uid: bool, url: str, as_json: bool, **wanted: Any) -> None:
    """Show all messages that match (browseMessages); with --lock-id what that browse has locked."""
    with _store(url, queue) as messages:
        for stored in messages.browse(_filter(**wanted), just_uid=just_uid):
            _print(stored, as_json)


@store.command("lock")
@click.argument("queue")
@filter_options
@confirm_option
@number_option("--lease-s", default=0.0, least=0, fractions=True, help="Unlock by itself after so long.")
@url_option
@json_option
def lock(queue: str, confirm_id: int, lease_s: float, url: str, as_json: bool, **wanted: Any) -> None:
    """Lock all messages that match and show them (browseMessagesAndLock); the lock id comes first."""
    with _store(url, queue) as messages:
        locked = messages.browse_and_lock(_filter(**wanted), confirm_id=confirm_id, lease_s=lease_s)
    text = f"lock id {locked.lock_id}" if locked.lock_id else "no message matches: there is no lock"
    click.echo(json.dumps({"lock_id": locked.lock_id}) if as_json else text)
    for stored in locked.messages:
        _print(stored, as_json)


@store.command("unlock")
@click.argument("queue")
@number_option("--lock-id", required=True, help="What `lock` printed.")
@uid_option
@url_option
@json_option
def unlock(queue: str, lock_id: int, uid: UniqueId | None, url: str, as_json: bool) -> None:
    """Unlock one message, or all of a lock (unlockMessage)."""
    with _store(url, queue) as messages:
        _done("unlocked", messages.unlock(lock_id, uid), as_json)


@store.command("confirm")
@click.argument("queue")
@number_option("--confirm-id", required=True, least=0, help="As in the put or get.")
@click.option("--put", "of_put", type=UNIQUE_ID, help="Only this put (confirmPutMessage).")
@click.option("--get", "of_get", type=UNIQUE_ID, help="Only this get (confirmGetMessage).")
@url_option
@json_option
def confirm(
    queue: str, confirm_id: int, of_put: UniqueId | None, of_get: UniqueId | None, url: str, as_json: bool
) -> None:
    """Confirm everything under a confirm id, or one put or get of it."""
    if of_put is not None and of_get is not None:
        raise click.UsageError("give one of --put and --get, or neither")
    count = 1
    with _store(url, queue) as messages:
        if of_put is not None:
            messages.confirm_put(of_put, confirm_id)
        elif of_get is not None:
            messages.confirm_get(of_get, confirm_id)
        else:
            count = messages.confirm(confirm_id)
    _done("confirmed", count, as_json)


@store.command("undo")
@click.argument("queue")
@number_option("--confirm-id", required=True, help="As in the put or get.")
@url_option
@json_option
def undo(queue: str, confirm_id: int, url: str, as_json: bool) -> None:
    """Take everything under a confirm id one step back (undo)."""
    with _store(url, queue) as messages:
        _done("undid", messages.undo(confirm_id), as_json)


@store.command("delete")
@click.argument("queue")
@needed_uid_option
@lock_option
@url_option
@json_option
def delete(queue: str, uid: UniqueId, lock_id: int | None, url: str, as_json: bool) -> None:
    """Delete a message (deleteMessage); one that is locked with its lock id."""
    with _store(url, queue) as messages:
        messages.delete(uid, lock_id=lock_id)
    _done("deleted", 1, as_json)


@store.command("list")
@click.argument("queue", default="")
@url_option
@json_option
def list_holders(queue: str, url: str, as_json: bool) -> None:
    """List the confirm ids and browse locks that hold messages, everywhere or on QUEUE."""
    with connected(url, queue) as connection:
        if queue:
            check_there(connection, queue)
        found = connection.create_management().query(STORE_HOLDER_TYPE)
    rows = [each for each in found if queue in ("", each["queue"])]
    heads = ("holder", "kind", "queue", "confirm id", "messages", "for", "user")
    show_rows(rows, heads, _holder_cells, as_json, ("for",))


def _holder_cells(row: Mapping[str, Any]) -> list[str]:
    held = shown(row["messages"])
    if row["messages_got"]:
        held += f", {shown(row['messages_got'])} got through it"
    confirm_id = str(row["confirm_id"] or "")
    if row["kind"] == "confirm-id" and row["lock_id"]:
        confirm_id += f" (through lock {row['lock_id']})"
    age = f"{age_s(row['since_us']):,} s"
    return [row["name"], row["kind"], row["queue"], confirm_id, held, age, row["user"]]


@store.command("end")
@click.argument("holder")
@url_option
@json_option
def end_holder(holder: str, url: str, as_json: bool) -> None:
    """End HOLDER (as listed) in its application's place: a confirm id is undone, a browse lock lifted.

    The ledger says that it was you.
    """
    ended = requested(url, "END", STORE_HOLDER_TYPE, holder)
    _done("gave back", int(str(ended["count"])), as_json)
