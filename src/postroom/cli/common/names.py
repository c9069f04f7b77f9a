"""Names that commands get: whether there is such a queue, and which names are like one that isn't there."""

from contextlib import closing, suppress
from typing import Final

from postroom.client import (
    Connection,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    ManagementClient,
)
from postroom.manager.kernel.name_rules import is_pattern
from postroom.model.entity_types import QUEUE_TYPE, REMOTE_QUEUE_TYPE, SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.model.names import split_address

COMPARED_NAMES: Final = 1000
"""Of each kind, the oldest: one answer of the management node."""
HINTED_NAMES: Final = 3


def check_there(connection: Connection, name: str) -> None:
    """Raise InvalidDestinationException unless a queue, subscription or topic has that name: to receive from
    one that isn't there would make it.

    A name that leads elsewhere is left to the broker, which makes nothing for it; so is one that the user may
    not see.
    """
    queue, queue_manager = split_address(name)
    elsewhere = queue_manager not in ("", connection.broker_container_id)
    with closing(connection.create_management()) as management:
        if any(_is_there(management, kind, name) for kind in (QUEUE_TYPE, TOPIC_TYPE, REMOTE_QUEUE_TYPE)):
            return
        if not elsewhere:
            management.read(QUEUE_TYPE, queue)


def _is_there(management: ManagementClient, kind: str, name: str) -> bool:
    """Whether there is one, or the user may not know."""
    try:
        management.read(kind, name)
    except InvalidDestinationException:
        return False
    except JMSSecurityException:
        return True
    return True


def is_missing(connection: Connection, kind: str, name: str) -> bool:
    """Whether the broker says that nothing of type ``kind`` has that name."""
    with closing(connection.create_management()) as management:
        return not _is_there(management, kind, name)


def check_topic_there(connection: Connection, name: str) -> None:
    """Raise InvalidDestinationException unless there is a topic of that name, or it is a pattern."""
    if not is_pattern(name):
        with closing(connection.create_management()) as management, suppress(JMSSecurityException):
            management.read(TOPIC_TYPE, name)


def hint_at_names(connection: Connection, name: str) -> str:
    """Which names are like ``name``, as the end of a sentence; "" where none is, they can't be had, or
    ``name`` is there and something else is not."""
    try:
        names = _names(connection) if name else {}
    except JMSException:
        return ""
    if names.get(name.casefold()) == name:
        return ""
    import difflib

    near = difflib.get_close_matches(name.casefold(), names, HINTED_NAMES)
    return f"; did you mean {' or '.join(repr(names[each]) for each in near)}?" if near else ""


def _names(connection: Connection) -> dict[str, str]:
    """By how they are compared."""
    found: dict[str, str] = {}
    with closing(connection.create_management()) as management:
        for kind in (QUEUE_TYPE, TOPIC_TYPE, SUBSCRIPTION_TYPE):
            page = {"entityType": kind, "count": COMPARED_NAMES}
            reply = management.request(
                "QUERY", body={"attributeNames": ["name", "temporary"]}, properties=page
            )
            rows = reply.attributes()["results"]
            assert isinstance(rows, list)
            found |= {str(each).casefold(): str(each) for each, temporary in rows if not temporary}
    return found
