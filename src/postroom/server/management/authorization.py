"""What right each operation of the management node asks for, and which of them are acts that are recorded.

One table for all: an operation that isn't in it can't be carried out. A test compares it with the operations
that there are; the reference prints it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from postroom.manager.administration.message_jobs import DISCARD, FORWARD, REPLAY
from postroom.manager.kernel.name_rules import SUBSCRIPTION_MARK
from postroom.manager.message_store.verbs import holder_by_id
from postroom.manager.transactions.xa_branch import branches_of
from postroom.model import entity_types as t
from postroom.model.names import full_address
from postroom.model.rights import QUEUE_MANAGER, Right, Rights
from postroom.model.xa import Xid, XidInvalid
from postroom.server.access.access import Access
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.management.request import Attributes, Request

MAX_ARGUMENTS: Final = 50
"""That an act tells of."""
MAX_ARGUMENT_CHARS: Final = 200
SECRETS: Final = frozenset({"verifiers", "message", "messages"})
"""Arguments that no act tells of."""
_NAMING: Final = ("operation", "type", "name", "identity", "locales")
_TARGETS: Final = ("dead_letter_queue", "expiry_queue")
"""Settings by which the queue manager puts messages somewhere in the name of whoever has set them."""


@dataclass(frozen=True, slots=True)
class Need:
    """One of these rights, on a destination or on `QUEUE_MANAGER`."""

    name: str
    rights: tuple[Right, ...]


Needs = Callable[[BrokerState, Request], list[Need]]
"""Everything that a request needs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Of one operation: what it needs, in words for the reference, and whether it is an act."""

    needs: Needs
    words: str
    act: bool


def _on_name(*rights: Right, act: bool = False) -> Rule:
    return Rule(lambda _, request: [Need(request.name, rights)], " or ".join(rights), act)


def _on_queue_manager(*rights: Right, act: bool = False) -> Rule:
    words = f"{' or '.join(rights)} on queue manager"
    return Rule(lambda _, request: [Need(QUEUE_MANAGER, rights)], words, act)


def _anybody(words: str = "nothing") -> Rule:
    return Rule(lambda _, request: [], words, False)


def _attributes(request: Request) -> Attributes:
    """As the operation will read them; what has none is refused by it."""
    return request.attributes() if isinstance(request.body, dict) else {}


def _text(request: Request, key: str) -> str:
    value = _attributes(request).get(key, "")
    return value if isinstance(value, str) else ""


# Destinations.


def _defining(right: Right) -> Rule:
    """With where its dead and expired messages go."""

    def needs(broker: BrokerState, request: Request) -> list[Need]:
        targets = [_text(request, key) for key in _TARGETS]
        name = request.name or _text(request, "name")
        return [Need(name, (right,)), *(Need(target, (Right.PUT,)) for target in targets if target)]

    return Rule(needs, f"{right}; put on {' and '.join(_TARGETS)}", True)


_DESTINATION: Final = {
    "READ": _on_name(Right.INQUIRE),
    "UPDATE": _defining(Right.ALTER),
    "DELETE": _on_name(Right.DELETE, act=True),
    "PAUSE": _on_name(Right.PAUSE, act=True),
    "RESUME": _on_name(Right.PAUSE, act=True),
    "RESET-STATISTICS": _on_name(Right.ALTER, act=True),
}
_HOLDS_MESSAGES: Final = {"PURGE": _on_name(Right.PURGE, act=True), "HOLDERS": _on_name(Right.INQUIRE)}


def _leading_elsewhere(right: Right) -> Rule:
    """A name for another queue: whoever may put to the name may put there."""

    def needs(broker: BrokerState, request: Request) -> list[Need]:
        queue, manager = _text(request, "remote_queue"), _text(request, "remote_queue_manager")
        own = [Need(request.name, (right,))]
        if queue:
            own.append(Need(full_address(queue, manager), (Right.PUT,)))
        elif manager:
            own.append(Need(QUEUE_MANAGER, (right,)))
        return own

    words = f"{right}; put on the remote queue; of a queue-manager alias {right} on queue manager"
    return Rule(needs, words, True)


# Messages.


def _moving(broker: BrokerState, request: Request) -> list[Need]:
    to = _text(request, "to")
    return [Need(request.name, (Right.MOVE,)), *([Need(to, (Right.PUT,))] if to else [])]


def _job(broker: BrokerState, request: Request) -> list[Need]:
    found = {Need(request.name, (Right.BROWSE,)): None}
    actions: Any = _attributes(request).get("actions", [])
    for each in actions if isinstance(actions, list) else []:
        if not isinstance(each, dict):
            continue
        action, to = each.get("action"), each.get("to")
        if action in (REPLAY, FORWARD):
            found[Need(request.name, (Right.MOVE,))] = None
        elif action == DISCARD:
            found[Need(request.name, (Right.PURGE,))] = None
        if isinstance(to, str) and to:
            found[Need(to, (Right.PUT,))] = None
    return list(found)


_EITHER: Final = (Right.PUT, Right.GET)
_MESSAGE: Final = {
    "PUT-MESSAGE": _on_name(Right.PUT),
    "CONFIRM-PUT": _on_name(Right.PUT),
    "UNDO": _on_name(*_EITHER),
    "CONFIRM": _on_name(*_EITHER),
    "GET-MESSAGE": _on_name(Right.GET),
    "CONFIRM-GET": _on_name(Right.GET),
    "BROWSE": _on_name(Right.BROWSE),
    "BROWSE-AND-LOCK": _on_name(Right.GET),
    "UNLOCK": _on_name(Right.GET),
    "DELETE-MESSAGE": _on_name(Right.GET),
    "WAIT": _on_name(Right.GET),
    "LISTEN": _on_name(Right.BROWSE),
    "OPEN-CURSOR": _on_name(Right.BROWSE),
    "READ-CURSOR": _on_name(Right.BROWSE),
    "CLOSE-CURSOR": _on_name(Right.BROWSE),
    "READ": _on_name(Right.BROWSE),
    "DELETE-MESSAGES": _on_name(Right.PURGE, act=True),
    "MOVE-MESSAGES": Rule(_moving, "move; put on `to`", True),
    "REPLAY": Rule(_moving, "move; put on `to`, where that is given", True),
    "IMPORT-MESSAGES": _on_name(Right.PUT, act=True),
    "ACT": Rule(_job, "browse; move to replay and forward, purge to discard; put on `to`", True),
}


# What belongs to somebody.


def _own_or_resolve(
    owner_of: Callable[[BrokerState, Request], str | None], what: str, act: bool = False
) -> Rule:
    """Who it belongs to needs nothing; of what isn't there nobody is shown more than that."""

    def needs(broker: BrokerState, request: Request) -> list[Need]:
        owner = owner_of(broker, request)
        own = owner is None or owner == request.user
        return [] if own else [Need(QUEUE_MANAGER, (Right.RESOLVE,))]

    return Rule(needs, f"nothing for {what}; else resolve on queue manager", act)


def _user_of_named_branch(broker: BrokerState, request: Request) -> str | None:
    return _branch_user(broker, request.name or request.text("xid"))


def _user_of_verbs_branch(broker: BrokerState, request: Request) -> str | None:
    """The verbs of a transaction manager go by the property ``xid``, whatever the name."""
    return _branch_user(broker, request.text("xid"))


def _branch_user(broker: BrokerState, xid: str) -> str | None:
    try:
        branch = branches_of(broker.manager.core).by_xid.get(Xid.parse(xid))
    except XidInvalid:
        return None
    return None if branch is None else branch.user


def _sink_user(broker: BrokerState, request: Request) -> str | None:
    return next((each.user for each in broker.manager.sinks.all() if each.name == request.name), None)


_OF_BRANCH: Final = _own_or_resolve(_user_of_verbs_branch, "who has begun the branch")
_OF_SINK: Final = _own_or_resolve(_sink_user, "who has begun the app's first batch")


def _queue_of_spark_subscription(broker: BrokerState, request: Request) -> list[Need]:
    found = broker.manager.spark_subscriptions.all.get(request.name)
    queue = _text(request, "queue") if found is None else found.queue.name
    return [Need(queue, (Right.GET,))]


def _lease(broker: BrokerState, request: Request) -> list[Need]:
    bodies = bool(_attributes(request).get("bodies"))
    rights = [Right.READ_LEDGER, *([Right.READ_BODIES] if bodies else [])]
    return [Need(QUEUE_MANAGER, (right,)) for right in rights]


def _store_holder(broker: BrokerState, request: Request) -> list[Need]:
    """Of a confirm id or lock of one's own nothing; the queue's own reader sees it."""
    number = int(request.name) if request.name.isascii() and request.name.isdecimal() else 0
    for queue in broker.manager.queues.values():
        holder = holder_by_id(queue, number)
        if holder is not None and holder.user == request.user:
            return [Need(queue.name, (Right.GET,))]
    return [Need(QUEUE_MANAGER, (Right.RESOLVE,))]


# Channels and users.


def _defining_channel(right: Right) -> Rule:
    """Its user is who puts: to name another is to give that user's rights."""

    def needs(broker: BrokerState, request: Request) -> list[Need]:
        user = _text(request, "user")
        found = [Need(QUEUE_MANAGER, (right,))]
        if user and user != request.user:
            found.append(Need(QUEUE_MANAGER, (Right.ADMINISTER_USERS,)))
        return found

    return Rule(needs, f"{right} on queue manager; administer-users to name another `user`", True)


def _password(broker: BrokerState, request: Request) -> list[Need]:
    own = request.name == request.user and set(_attributes(request)) == {"verifiers"}
    return [] if own else [Need(QUEUE_MANAGER, (Right.ADMINISTER_USERS,))]


_ADMINISTER: Final = _on_queue_manager(Right.ADMINISTER_USERS, act=True)
_PRINCIPAL: Final = {
    "CREATE": _ADMINISTER,
    "READ": Rule(
        lambda _, request: (
            [] if request.name == request.user else [Need(QUEUE_MANAGER, (Right.ADMINISTER_USERS,))]
        ),
        "nothing for oneself; else administer-users on queue manager",
        False,
    ),
    "UPDATE": Rule(_password, "nothing for the own password; else administer-users on queue manager", True),
    "DELETE": _ADMINISTER,
    "GRANT": _ADMINISTER,
    "REVOKE": _ADMINISTER,
}

RULES: Final[dict[str, dict[str, Rule]]] = {
    t.QUEUE_TYPE: {"CREATE": _defining(Right.CREATE), **_DESTINATION, **_HOLDS_MESSAGES},
    t.TOPIC_TYPE: {"CREATE": _defining(Right.CREATE), "PUBLISH": _on_name(Right.PUT), **_DESTINATION},
    t.SUBSCRIPTION_TYPE: {"CREATE": _defining(Right.CREATE), **_DESTINATION, **_HOLDS_MESSAGES},
    t.REMOTE_QUEUE_TYPE: {
        "CREATE": _leading_elsewhere(Right.CREATE),
        "READ": _on_name(Right.INQUIRE),
        "UPDATE": _leading_elsewhere(Right.ALTER),
        "DELETE": _on_name(Right.DELETE, act=True),
    },
    t.MESSAGE_TYPE: _MESSAGE,
    t.QUOTA_TYPE: {
        "CREATE": _on_queue_manager(Right.CREATE, act=True),
        "READ": _on_queue_manager(Right.INQUIRE),
        "UPDATE": _on_queue_manager(Right.ALTER, act=True),
        "DELETE": _on_queue_manager(Right.DELETE, act=True),
    },
    t.CHANNEL_TYPE: {
        "CREATE": _defining_channel(Right.CREATE),
        "READ": _on_queue_manager(Right.INQUIRE),
        "UPDATE": _defining_channel(Right.ALTER),
        "DELETE": _on_queue_manager(Right.DELETE, act=True),
        "START": _on_queue_manager(Right.PAUSE, act=True),
        "STOP": _on_queue_manager(Right.PAUSE, act=True),
        "RESET": _on_queue_manager(Right.RESOLVE, act=True),
        "RESOLVE": _on_queue_manager(Right.RESOLVE, act=True),
        "PING": _on_queue_manager(Right.INQUIRE),
    },
    t.DEAD_LETTER_HANDLER_TYPE: {"READ": _on_queue_manager(Right.INQUIRE)},
    t.CONNECTION_TYPE: {
        "READ": _on_queue_manager(Right.INQUIRE),
        "CLOSE": _on_queue_manager(Right.PAUSE, act=True),
        "RESET-STATISTICS": _on_queue_manager(Right.ALTER, act=True),
    },
    t.BROKER_TYPE: {
        "READ": _on_queue_manager(Right.INQUIRE),
        "RESET-STATISTICS": _on_queue_manager(Right.ALTER, act=True),
    },
    t.LEASE_TYPE: {
        "CREATE": Rule(_lease, "read-ledger on queue manager, with bodies read-bodies too", True),
        "READ": _on_queue_manager(Right.READ_LEDGER),
        "UPDATE": _on_queue_manager(Right.READ_LEDGER, act=True),
        "DELETE": _on_queue_manager(Right.READ_LEDGER, act=True),
    },
    t.LEDGER_TYPE: {
        "FIND-MESSAGES": _on_queue_manager(Right.READ_LEDGER),
        "FOLLOW-MESSAGES": _on_queue_manager(Right.READ_LEDGER),
    },
    t.MEMBER_TYPE: {
        "READ": _on_queue_manager(Right.INQUIRE),
        "DELETE": _on_queue_manager(Right.ALTER, act=True),
        "HAND-OVER": _on_queue_manager(Right.PAUSE, act=True),
    },
    t.SPARK_SUBSCRIPTION_TYPE: {
        operation: Rule(
            _queue_of_spark_subscription,
            "get on its queue",
            operation in ("CREATE", "UPDATE", "DELETE"),
        )
        for operation in ("CREATE", "READ", "UPDATE", "DELETE", "PLAN", "REGISTER", "CONFIRM")
    },
    t.TRANSACTION_TYPE: {"READ": _on_queue_manager(Right.INQUIRE, Right.RESOLVE)},
    t.BRANCH_TYPE: {
        "READ": _own_or_resolve(_user_of_named_branch, "who has begun it"),
        "END": _anybody("nothing: it is the session's own"),
        "RECOVER": _anybody("nothing; the branches of others are shown with resolve on queue manager"),
        **dict.fromkeys(("PREPARE", "COMMIT", "ROLLBACK", "FORGET"), _OF_BRANCH),
        **dict.fromkeys(
            ("HEURISTIC-COMMIT", "HEURISTIC-ROLLBACK", "DELETE"),
            _on_queue_manager(Right.RESOLVE, act=True),
        ),
    },
    t.SINK_TYPE: {
        **dict.fromkeys(("READ", "BEGIN", "SEAL", "ROLLBACK", "COMMIT"), _OF_SINK),
        "DELETE": _own_or_resolve(_sink_user, "who has begun the app's first batch", act=True),
    },
    t.STORE_HOLDER_TYPE: {
        "READ": Rule(_store_holder, "get on its queue for the own; else resolve on queue manager", False),
        "END": Rule(_store_holder, "get on its queue for the own; else resolve on queue manager", True),
    },
    t.USER_TYPE: _PRINCIPAL,
    t.ROLE_TYPE: _PRINCIPAL,
}
"""By type and operation. The operations about all types (QUERY, GET-…) need nothing: QUERY shows what may be
seen."""

SEEN_BY: Final[dict[str, Right | None]] = {
    **dict.fromkeys(RULES, Right.INQUIRE),
    **dict.fromkeys((t.QUEUE_TYPE, t.TOPIC_TYPE, t.SUBSCRIPTION_TYPE, t.REMOTE_QUEUE_TYPE), None),
    t.LEASE_TYPE: Right.READ_LEDGER,
    t.USER_TYPE: Right.ADMINISTER_USERS,
    t.ROLE_TYPE: Right.ADMINISTER_USERS,
}
"""Which right on the queue manager shows all things of a type in answers to QUERY; None: inquire on the name
of each shows it."""


def lacking(access: Access, broker: BrokerState, rule: Rule, request: Request) -> tuple[Right, str] | None:
    """The first right that is missing, and what it is missing on; None where nothing is."""
    if not access.in_force:
        return None
    rights = access.rights_of(request)
    for need in rule.needs(broker, request):
        name = need.name if need.name == QUEUE_MANAGER else access.governing_name(need.name)
        if not any(_has(access, rights, request.user, right, name) for right in need.rights):
            return need.rights[0], name
    return None


def _has(access: Access, rights: Rights, user: str, right: Right, name: str) -> bool:
    return rights.on_queue_manager(right) if name == QUEUE_MANAGER else access.has(rights, user, right, name)


def may_see(rights: Rights, type: str, name: str) -> bool:
    """Whether a row of a QUERY is shown; ``name`` "" asks about all rows of the type."""
    right = SEEN_BY[type]
    if right is not None:
        return rights.on_queue_manager(right)
    destination = name.partition(SUBSCRIPTION_MARK)[0]
    return rights.on(Right.INQUIRE, destination) if name else rights.everywhere(Right.INQUIRE)


def arguments_of(request: Request) -> str:
    """What was asked for, as JSON, for the record of acts; nothing secret, and no message."""
    shown: dict[str, object] = {}
    body = request.body if isinstance(request.body, dict) else {}
    for key, value in [*request.properties.items(), *body.items()]:
        if key not in _NAMING and key not in SECRETS and len(shown) < MAX_ARGUMENTS:
            shown[str(key)[:MAX_ARGUMENT_CHARS]] = _shown(value)
    return json.dumps(shown, ensure_ascii=False) if shown else ""


def _shown(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return value[:MAX_ARGUMENT_CHARS]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [each[:MAX_ARGUMENT_CHARS] for each in value[:MAX_ARGUMENTS]]
    return f"({len(value)})" if isinstance(value, list | dict | bytes) else str(type(value).__name__)
