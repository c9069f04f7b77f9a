"""The states of a channel at one of its ends, and the one table of what happens to it.

A *channel* carries messages from the transmission queue of one queue manager to another. Each end has a
definition of its own and an *instance* that lives through the states here; the two ends don't share a state,
they only see each other's links come and go.

What an end can be depends on who opens the connection, its `Role`. A *caller* (a sender, a server that has a
connection, the local end of a channel to a foreign broker) opens it and keeps at it: what fails is tried
again, first often, then rarely. A *requester* opens it, too, but asks the other end to send, and when that
fails it is not tried again. An *answerer* (a receiver, a server without a connection) waits to be called; it
is never STARTING, INITIALIZING, REQUESTING or RETRYING.

A channel comes to life by ``START`` (a command), by ``TRIGGER`` (a message has landed on its transmission
queue; only inactive channels listen) or by ``CALLED`` (the partner has attached to it). STARTING waits for
its turn among the outgoing connections; INITIALIZING opens one, with TLS and a login; a requester is
REQUESTING until the other end has answered its attach; BINDING compares names, sequence numbers and the batch
that may be in doubt; RUNNING carries messages. PAUSED is a receiving end that tries a put again and again: it
takes nothing else, so that nothing is overtaken.

Nothing that happens to a link is an error of the channel by itself. ``LOST`` is all that time may heal: no
connection, a broken one, a partner that is stopping or whose queue manager is; a caller retries. ``REFUSED``
is what stays wrong however often it is tried (no such channel there, sequence numbers that differ, a login
that is refused): it stops the channel and somebody has to look at it. An answerer has nothing to retry and
nothing to stop: for it both mean that it is free to be called again. ``ENDED`` is a link that its partner
closed in good order. A caller that was not asked to end takes that for ``LOST``: its messages still wait.

``STOP`` with QUIESCE lets the batch come to its end (STOPPING); the other modes break the link at once, FORCE
by closing it, TERMINATE by cutting the connection, and may so leave a batch in doubt. Where nothing is under
way, all three are the same. A stopped channel hears no trigger and no call, only ``START``; with
STATUS(INACTIVE) the command asks for less: the channel ends and may be triggered or called again. The table
says STOPPED for both and `cell` reads it as what was asked.

STOPPED and RETRYING survive a restart, and so does what STOPPING was on its way to: a command was given.
Everything else begins anew as INACTIVE, and a look at the transmission queue triggers it.

News of a link may come late, after a command has taken the channel elsewhere; they change nothing then
(STAYS). A cell that the supervisor must never ask for says so (IMPOSSIBLE).

IBM MQ also has SWITCHING, for the automatic transmission queues of clusters, and DISCONNECTED, for clients of
telemetry; Postroom has neither of them and so not these states.

Sources: IBM MQ, "Channel states", "Stopping and quiescing channels"; seed "what happens when a message cannot
be delivered".
"""

from enum import IntEnum
from typing import Final, final


class ChannelState(IntEnum):
    """Where one end of a channel is in its life; names as MQ displays them."""

    INACTIVE = 0
    STARTING = 1
    """Waits for its turn to open a connection."""
    INITIALIZING = 2
    """Opens the connection: socket, TLS, login."""
    REQUESTING = 3
    """Has asked the other end to send, and has no answer."""
    BINDING = 4
    """Compares names, sequence numbers and batches with the other end."""
    RUNNING = 5
    PAUSED = 6
    """Tries the put of a message again."""
    RETRYING = 7
    """Waits to start again."""
    STOPPING = 8
    """Ends when its batch does."""
    STOPPED = 9
    """Only ``START`` helps."""


class ChannelEvent(IntEnum):
    """What happens to a channel: commands, its own progress, what its link and time do to it."""

    START = 0
    STOP_QUIESCE = 1
    STOP_FORCE = 2
    STOP_TERMINATE = 3
    TRIGGER = 4
    """A message has landed on its transmission queue."""
    CALLED = 5
    """The partner has attached to it."""
    ADMITTED = 6
    """It is its turn to open a connection."""
    CONNECTED = 7
    """The connection is open; its link is attached now."""
    ATTACHED = 8
    """The other end has answered the attach."""
    RESYNCHRONISED = 9
    """Both ends agree what the last batch was."""
    BATCH_CONFIRMED = 10
    """A batch has ended and both ends know it."""
    PAUSE = 11
    RESUME = 12
    LOST = 13
    """The link has failed in a way that time may heal."""
    REFUSED = 14
    """The link has failed in a way that somebody has to look at."""
    IDLE_OUT = 15
    """No message for the disconnect interval."""
    RETRY_DUE = 16
    RETRIES_OVER = 17
    ENDED = 18
    """The link was closed in good order."""
    RESTART = 19
    """This queue manager was down."""


class Role(IntEnum):
    """Which end of a channel this is, by who opens the connection."""

    CALLER = 0
    REQUESTER = 1
    ANSWERER = 2


class Verdict(IntEnum):
    """What whoever brought the event is told."""

    DONE = 0
    IN_USE = 1
    """Refused: the channel is active."""
    STOPPED = 2
    """Refused: the channel was stopped."""
    IMPOSSIBLE = 3
    """A defect of the supervisor."""


@final
class Cell:
    """What an event does: the answer, and the state afterwards."""

    def __init__(self, verdict: Verdict, to: ChannelState) -> None:
        self.verdict: Final = verdict
        self.to: Final = to


S = ChannelState
E = ChannelEvent
V = Verdict

STATES: Final[dict[Role, tuple[ChannelState, ...]]] = {
    Role.CALLER: tuple(state for state in S if state != S.REQUESTING),
    Role.REQUESTER: tuple(state for state in S if state != S.RETRYING),
    Role.ANSWERER: (S.INACTIVE, S.BINDING, S.RUNNING, S.PAUSED, S.STOPPING, S.STOPPED),
}
"""What each role can be in."""

_CALLER: Final = (Role.CALLER,)
_REQUESTER: Final = (Role.REQUESTER,)
_ANSWERER: Final = (Role.ANSWERER,)
_CALLERS: Final = (Role.CALLER, Role.REQUESTER)
_NOT_CALLER: Final = (Role.REQUESTER, Role.ANSWERER)
_ALL: Final = tuple(Role)

_AT_REST: Final = (S.INACTIVE, S.RETRYING, S.STOPPED)
"""No link, no connection, nothing under way."""
_OPENING: Final = (S.STARTING, S.INITIALIZING)
_MEETING: Final = (S.REQUESTING, S.BINDING)
_AT_WORK: Final = (S.RUNNING, S.PAUSED)
_LINKED: Final = (*_MEETING, *_AT_WORK)
ACTIVE: Final = frozenset((*_OPENING, *_LINKED, S.STOPPING))

STAYS: Final = None
"""In a row of the table: the channel is afterwards what it was before."""

_Row = list[tuple[tuple[Role, ...], tuple[ChannelState, ...], Verdict, ChannelState | None]]

_ROWS: Final[dict[ChannelEvent, _Row]] = {
    E.START: [
        (_CALLERS, _AT_REST, V.DONE, S.STARTING),
        (_ANSWERER, _AT_REST, V.DONE, S.INACTIVE),  # it may be called again
        (_ALL, (*_OPENING, *_LINKED, S.STOPPING), V.IN_USE, STAYS),
    ],
    E.STOP_QUIESCE: [
        (_ALL, (*_AT_REST, *_OPENING, *_MEETING), V.DONE, S.STOPPED),
        (_ALL, (*_AT_WORK, S.STOPPING), V.DONE, S.STOPPING),
    ],
    E.STOP_FORCE: [(_ALL, tuple(S), V.DONE, S.STOPPED)],
    E.STOP_TERMINATE: [(_ALL, tuple(S), V.DONE, S.STOPPED)],
    E.TRIGGER: [
        (_CALLER, (S.INACTIVE,), V.DONE, S.STARTING),
        (_CALLER, (S.RETRYING, S.STOPPED, *_OPENING, *_LINKED, S.STOPPING), V.DONE, STAYS),
        (_NOT_CALLER, tuple(S), V.IMPOSSIBLE, STAYS),  # no transmission queue, or nobody to call
    ],
    E.CALLED: [
        (_ALL, (S.INACTIVE, S.RETRYING), V.DONE, S.BINDING),
        (_ALL, (S.STOPPED,), V.STOPPED, STAYS),
        (_REQUESTER, (S.REQUESTING,), V.DONE, S.BINDING),  # a sender that was asked calls back
        (_ALL, (*_OPENING, S.BINDING, *_AT_WORK, S.STOPPING), V.IN_USE, STAYS),
    ],
    E.ADMITTED: [
        (_CALLERS, (S.STARTING,), V.DONE, S.INITIALIZING),
        (_CALLERS, (*_AT_REST, S.INITIALIZING, *_LINKED, S.STOPPING), V.IMPOSSIBLE, STAYS),
        (_ANSWERER, tuple(S), V.IMPOSSIBLE, STAYS),
    ],
    E.CONNECTED: [
        (_CALLER, (S.INITIALIZING,), V.DONE, S.BINDING),
        (_REQUESTER, (S.INITIALIZING,), V.DONE, S.REQUESTING),
        (_CALLERS, (*_AT_REST, S.STARTING, *_LINKED, S.STOPPING), V.IMPOSSIBLE, STAYS),
        (_ANSWERER, tuple(S), V.IMPOSSIBLE, STAYS),
    ],
    E.ATTACHED: [
        (_ALL, (S.REQUESTING, S.BINDING), V.DONE, S.BINDING),
        (_ALL, (*_AT_REST, *_OPENING, *_AT_WORK, S.STOPPING), V.DONE, STAYS),
    ],
    E.RESYNCHRONISED: [
        (_ALL, (S.BINDING,), V.DONE, S.RUNNING),
        (_ALL, (*_AT_REST, *_OPENING, S.REQUESTING, *_AT_WORK, S.STOPPING), V.DONE, STAYS),
    ],
    E.BATCH_CONFIRMED: [(_ALL, tuple(S), V.DONE, STAYS)],
    E.PAUSE: [
        (_ALL, (S.RUNNING,), V.DONE, S.PAUSED),
        (_ALL, (*_AT_REST, *_OPENING, *_MEETING, S.PAUSED, S.STOPPING), V.DONE, STAYS),
    ],
    E.RESUME: [
        (_ALL, (S.PAUSED,), V.DONE, S.RUNNING),
        (_ALL, (*_AT_REST, *_OPENING, *_MEETING, S.RUNNING, S.STOPPING), V.DONE, STAYS),
    ],
    E.LOST: [
        (_CALLER, (*_OPENING, *_LINKED), V.DONE, S.RETRYING),
        (_NOT_CALLER, (*_OPENING, *_LINKED), V.DONE, S.INACTIVE),
        (_ALL, (S.STOPPING,), V.DONE, S.STOPPED),
        (_ALL, _AT_REST, V.DONE, STAYS),
    ],
    E.REFUSED: [
        (_CALLERS, (*_OPENING, *_LINKED, S.STOPPING), V.DONE, S.STOPPED),
        (_ANSWERER, _LINKED, V.DONE, S.INACTIVE),
        (_ANSWERER, (S.STOPPING,), V.DONE, S.STOPPED),
        (_ALL, _AT_REST, V.DONE, STAYS),
    ],
    E.IDLE_OUT: [
        (_ALL, (S.RUNNING,), V.DONE, S.INACTIVE),
        (_ALL, (*_AT_REST, *_OPENING, *_MEETING, S.PAUSED, S.STOPPING), V.DONE, STAYS),
    ],
    E.RETRY_DUE: [
        (_CALLER, (S.RETRYING,), V.DONE, S.STARTING),
        (_CALLER, (S.INACTIVE, S.STOPPED, *_OPENING, *_LINKED, S.STOPPING), V.IMPOSSIBLE, STAYS),
        (_NOT_CALLER, tuple(S), V.IMPOSSIBLE, STAYS),
    ],
    E.RETRIES_OVER: [
        (_CALLER, (S.RETRYING,), V.DONE, S.STOPPED),
        (_CALLER, (S.INACTIVE, S.STOPPED, *_OPENING, *_LINKED, S.STOPPING), V.IMPOSSIBLE, STAYS),
        (_NOT_CALLER, tuple(S), V.IMPOSSIBLE, STAYS),
    ],
    E.ENDED: [
        (_CALLER, (*_OPENING, *_LINKED), V.DONE, S.RETRYING),
        (_NOT_CALLER, (*_OPENING, *_LINKED), V.DONE, S.INACTIVE),
        (_ALL, (S.STOPPING,), V.DONE, S.STOPPED),
        (_ALL, _AT_REST, V.DONE, STAYS),
    ],
    E.RESTART: [
        (_ALL, (S.INACTIVE, *_OPENING, *_LINKED), V.DONE, S.INACTIVE),
        (_CALLER, (S.RETRYING,), V.DONE, S.RETRYING),
        (_ALL, (S.STOPPING, S.STOPPED), V.DONE, S.STOPPED),
    ],
}

_ENDS: Final = frozenset((E.STOP_QUIESCE, E.STOP_FORCE, E.STOP_TERMINATE))
"""What asks for STOPPED or, with STATUS(INACTIVE), for less."""


def _spread_row(event: ChannelEvent) -> dict[tuple[Role, ChannelState], Cell]:
    row: dict[tuple[Role, ChannelState], Cell] = {}
    for roles, states, verdict, to in _ROWS[event]:
        for role in roles:
            for state in states:
                if state not in STATES[role]:
                    continue
                if (role, state) in row:
                    raise AssertionError(f"cell ({event.name}, {role.name}, {state.name}) is given twice")
                row[role, state] = Cell(verdict, state if to is None else to)
    return row


def _spread() -> list[Cell | None]:
    """One cell for every event, role and state, None where the role can't be in that state; raises
    AssertionError where a row names one twice or never.
    """
    cells: list[Cell | None] = []
    for event in E:
        row = _spread_row(event)
        for role in Role:
            for state in S:
                if (state in STATES[role]) != ((role, state) in row):
                    raise AssertionError(f"({event.name}, {role.name}, {state.name}) is missing")
                cells.append(row.get((role, state)))
    return cells


_CELLS: Final = _spread()


def cell(event: ChannelEvent, role: Role, state: ChannelState, stop_status: ChannelState = S.STOPPED) -> Cell:
    """What ``event`` does to a channel of that role in ``state``.

    ``stop_status`` is the STATUS of the command to stop that the channel is under, STOPPED or INACTIVE.
    """
    found = _CELLS[(event * len(Role) + role) * len(S) + state]
    if found is None:
        raise AssertionError(f"a {role.name} can't be in state {state.name}")
    if found.to == S.STOPPED and stop_status != found.to and (event in _ENDS or state == S.STOPPING):
        return Cell(found.verdict, stop_status)
    return found


def role_of(channel_type: str, connection: str, foreign: bool) -> Role:
    """The role of a channel of that type; ``connection`` is empty where it has none."""
    if channel_type == "requester":
        return Role.REQUESTER
    if channel_type == "sender" or foreign or (channel_type == "server" and connection):
        return Role.CALLER
    return Role.ANSWERER
