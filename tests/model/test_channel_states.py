"""The table of a channel's states: every cell, written down once more as one would for a colleague."""

import pytest

from postroom.model.channel_states import (
    ACTIVE,
    STATES,
    ChannelEvent,
    ChannelState,
    Role,
    Verdict,
    cell,
    role_of,
)

# One line an event, one word a state: where it leads to. "=" stays, "USE" and "STOP" are refusals, "!" is a
# defect.
COLUMNS = {
    Role.CALLER: "inactive starting initializing binding running paused retrying stopping stopped",
    Role.REQUESTER: "inactive starting initializing requesting binding running paused stopping stopped",
    Role.ANSWERER: "inactive binding running paused stopping stopped",
}
TABLES = {
    Role.CALLER: """
start            starting USE          USE      USE      USE      USE      starting USE      starting
stop_quiesce     stopped  stopped      stopped  stopped  stopping stopping stopped  =        =
stop_force       stopped  stopped      stopped  stopped  stopped  stopped  stopped  stopped  =
stop_terminate   stopped  stopped      stopped  stopped  stopped  stopped  stopped  stopped  =
trigger          starting =            =        =        =        =        =        =        =
called           binding  USE          USE      USE      USE      USE      binding  USE      STOP
admitted         !        initializing !        !        !        !        !        !        !
connected        !        !            binding  !        !        !        !        !        !
attached         =        =            =        =        =        =        =        =        =
resynchronised   =        =            =        running  =        =        =        =        =
batch_confirmed  =        =            =        =        =        =        =        =        =
pause            =        =            =        =        paused   =        =        =        =
resume           =        =            =        =        =        running  =        =        =
lost             =        retrying     retrying retrying retrying retrying =        stopped  =
refused          =        stopped      stopped  stopped  stopped  stopped  =        stopped  =
idle_out         =        =            =        =        inactive =        =        =        =
retry_due        !        !            !        !        !        !        starting !        !
retries_over     !        !            !        !        !        !        stopped  !        !
ended            =        retrying     retrying retrying retrying retrying =        stopped  =
restart          =        inactive     inactive inactive inactive inactive =        stopped  =
""",
    Role.REQUESTER: """
start            starting USE          USE        USE      USE      USE      USE      USE      starting
stop_quiesce     stopped  stopped      stopped    stopped  stopped  stopping stopping =        =
stop_force       stopped  stopped      stopped    stopped  stopped  stopped  stopped  stopped  =
stop_terminate   stopped  stopped      stopped    stopped  stopped  stopped  stopped  stopped  =
trigger          !        !            !          !        !        !        !        !        !
called           binding  USE          USE        binding  USE      USE      USE      USE      STOP
admitted         !        initializing !          !        !        !        !        !        !
connected        !        !            requesting !        !        !        !        !        !
attached         =        =            =          binding  =        =        =        =        =
resynchronised   =        =            =          =        running  =        =        =        =
batch_confirmed  =        =            =          =        =        =        =        =        =
pause            =        =            =          =        =        paused   =        =        =
resume           =        =            =          =        =        =        running  =        =
lost             =        inactive     inactive   inactive inactive inactive inactive stopped  =
refused          =        stopped      stopped    stopped  stopped  stopped  stopped  stopped  =
idle_out         =        =            =          =        =        inactive =        =        =
retry_due        !        !            !          !        !        !        !        !        !
retries_over     !        !            !          !        !        !        !        !        !
ended            =        inactive     inactive   inactive inactive inactive inactive stopped  =
restart          =        inactive     inactive   inactive inactive inactive inactive stopped  =
""",
    Role.ANSWERER: """
start            =        USE      USE      USE      USE      inactive
stop_quiesce     stopped  stopped  stopping stopping =        =
stop_force       stopped  stopped  stopped  stopped  stopped  =
stop_terminate   stopped  stopped  stopped  stopped  stopped  =
trigger          !        !        !        !        !        !
called           binding  USE      USE      USE      USE      STOP
admitted         !        !        !        !        !        !
connected        !        !        !        !        !        !
attached         =        =        =        =        =        =
resynchronised   =        running  =        =        =        =
batch_confirmed  =        =        =        =        =        =
pause            =        =        paused   =        =        =
resume           =        =        =        running  =        =
lost             =        inactive inactive inactive stopped  =
refused          =        inactive inactive inactive stopped  =
idle_out         =        =        inactive =        =        =
retry_due        !        !        !        !        !        !
retries_over     !        !        !        !        !        !
ended            =        inactive inactive inactive stopped  =
restart          =        inactive inactive inactive stopped  =
""",
}
REFUSALS = {"USE": Verdict.IN_USE, "STOP": Verdict.STOPPED, "!": Verdict.IMPOSSIBLE}

Place = tuple[ChannelEvent, Role, ChannelState]
CELLS: list[tuple[Place, str]] = [
    ((ChannelEvent[line.split()[0].upper()], role, ChannelState[state.upper()]), word)
    for role, table in TABLES.items()
    for line in table.strip().splitlines()
    for state, word in zip(COLUMNS[role].split(), line.split()[1:], strict=True)
]
PLACES = [place for place, _ in CELLS]


def name_of(place: Place) -> str:
    return "-".join(part.name for part in place)


@pytest.mark.parametrize(("place", "word"), CELLS, ids=[name_of(place) for place in PLACES])
def test_a_cell(place: Place, word: str) -> None:
    found = cell(*place)
    assert found.verdict == REFUSALS.get(word, Verdict.DONE)
    expected = place[2] if word == "=" or word in REFUSALS else ChannelState[word.upper()]
    assert found.to == expected


def test_every_cell_has_its_test() -> None:
    wanted = {(event, role, state) for event in ChannelEvent for role in Role for state in STATES[role]}
    assert set(PLACES) == wanted
    assert len(PLACES) == len(wanted)


@pytest.mark.parametrize("place", PLACES, ids=name_of)
def test_status_inactive_asks_for_inactive_instead_of_stopped(place: Place) -> None:
    """Of what a command to stop leads to, and of nothing else: errors still stop a channel."""
    event, _, state = place
    usual, inactive = cell(*place), cell(*place, ChannelState.INACTIVE)
    by_command = "STOP" in event.name or state == ChannelState.STOPPING
    changed = by_command and usual.to == ChannelState.STOPPED
    assert inactive.to == (ChannelState.INACTIVE if changed else usual.to)
    assert inactive.verdict == usual.verdict


@pytest.mark.parametrize("place", PLACES, ids=name_of)
def test_an_event_leads_where_its_role_can_be(place: Place) -> None:
    assert cell(*place).to in STATES[place[1]]


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.name)
def test_force_and_terminate_leave_nothing_active(role: Role) -> None:
    for event in (ChannelEvent.STOP_FORCE, ChannelEvent.STOP_TERMINATE, ChannelEvent.RESTART):
        for state in STATES[role]:
            assert cell(event, role, state).to not in ACTIVE


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.name)
def test_only_start_leads_out_of_stopped(role: Role) -> None:
    for event in ChannelEvent:
        moved = cell(event, role, ChannelState.STOPPED).to != ChannelState.STOPPED
        assert moved == (event == ChannelEvent.START)


@pytest.mark.parametrize(
    ("channel_type", "connection", "foreign", "role"),
    [
        ("sender", "amqp://b", False, Role.CALLER),
        ("server", "amqp://b", False, Role.CALLER),
        ("server", "", False, Role.ANSWERER),
        ("receiver", "", False, Role.ANSWERER),
        ("requester", "amqp://b", False, Role.REQUESTER),
        ("sender", "amqp://b", True, Role.CALLER),
        ("receiver", "amqp://b", True, Role.CALLER),
    ],
)
def test_who_opens_the_connection(channel_type: str, connection: str, foreign: bool, role: Role) -> None:
    assert role_of(channel_type, connection, foreign) == role
