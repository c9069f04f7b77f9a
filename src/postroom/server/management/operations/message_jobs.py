"""ACT, an operation on messages: what a job asks for about many of them at a time (`docs/reference/jobs`).

The body is a map of ``ledger_id`` (whose serials these are) and ``actions``, a list of maps. Each of these
has what is to be done (``action``, ``to``, ``reason``) and the messages that it is done with, in columns:
``serials``, ``positions`` and ``delivery_counts``, and ``ordinals`` unless they are all 0. The answer tells
of the messages in that order.
"""

from typing import TYPE_CHECKING, Final, cast

from postroom.manager.administration.message_jobs import ANSWERS, MAX_ACTIONS, Act, Acted, Action, detail_of
from postroom.manager.queues.queue import Queue
from postroom.server.management.arguments import MAX_NUMBER, Arguments
from postroom.server.management.request import BAD_REQUEST, CONFLICT, LIMIT, Attributes, RequestError

if TYPE_CHECKING:
    from postroom.server.management.operations.tickets import Ticket

_COLUMNS: Final = ("serials", "positions", "delivery_counts", "ordinals")
_OPTIONAL: Final = "ordinals"


def make_act(ledger_id: str, queue: Queue, ticket: "Ticket", arguments: Arguments) -> Act:
    """The request, at the broker of that ledger. Raises RequestError, RequestInvalid."""
    meant = arguments.value("ledger_id", str, "")
    if meant != ledger_id:
        raise RequestError(
            CONFLICT,
            f"the serials are of ledger {meant!r:.100}, and this broker's is {ledger_id}: nothing was done",
        )
    actions: list[Action] = []
    for number, each in enumerate(arguments.value("actions", list, [])):
        where = f"actions[{number}]"
        if not isinstance(each, dict):
            raise RequestError(BAD_REQUEST, f"{where} is {each!r:.100}, must be a map")
        action, to = _text(each, "action", where), _text(each, "to", where)
        detail = detail_of(_text(each, "reason", where), arguments.user)
        columns = _columns(each, where)
        if len(actions) + len(columns[0]) > MAX_ACTIONS:
            raise RequestError(LIMIT, f"more than {MAX_ACTIONS} messages: one request acts on {MAX_ACTIONS}")
        actions += [
            Action(action, to, detail, serial, place, ordinal, deliveries)
            for serial, place, deliveries, ordinal in zip(*columns, strict=True)
        ]
    return Act(queue, ticket, actions)


def _text(fields: dict[object, object], name: str, where: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise RequestError(BAD_REQUEST, f"{where}.{name} is {value!r:.100}, must be a string")
    return value


def _columns(fields: dict[object, object], where: str) -> list[list[int]]:
    """Those of `_COLUMNS`, all of one length."""
    found: list[list[int]] = []
    for name in _COLUMNS:
        column = fields.get(name)
        if column is None and name == _OPTIONAL:
            column = [0] * len(found[0])
        if not isinstance(column, list) or not _are_numbers(column):
            raise RequestError(BAD_REQUEST, f"{where}.{name} must be a list of whole numbers of 0 or more")
        if found and len(column) != len(found[0]):
            raise RequestError(
                BAD_REQUEST, f"{where} has {len(found[0])} {_COLUMNS[0]} and {len(column)} {name}"
            )
        found.append(column)
    return found


def _are_numbers(column: list[object]) -> bool:
    kinds = set(map(type, column))
    if not all(issubclass(kind, int) and kind is not bool for kind in kinds):
        return False
    numbers = cast("list[int]", column)
    return not numbers or (min(numbers) >= 0 and max(numbers) <= MAX_NUMBER)


def shown_acted(done: object, now_us: int) -> Attributes:
    """The body of the answer."""
    assert isinstance(done, Acted)
    answers = [ANSWERS[answer] for answer in done.answers]
    counts = {name: answers.count(name) for name in ANSWERS}
    refusals = [{"why": why, "numbers": numbers} for why, numbers in done.refusals.items()]
    return {"answers": answers, **counts, "refusals": refusals}
