"""The texts of states and outcomes as the tables have them."""

from typing import Final

from postroom.model.codes import DelayCause, Outcome, State

HELD_STATES: Final = ("put_unconfirmed", "locked_for_browse", "get_unconfirmed", "browse_get_unconfirmed")
"""States in which a holder must confirm; only there a row names one."""

TAKEN_STATES: Final = HELD_STATES[1:]
"""Held states of an entry that somebody has got or locked."""

LIVE_STATES: Final = tuple(state.name.lower() for state in State if state not in (State.START, State.DELETED))

OUTCOMES: Final = tuple(outcome.name.lower() for outcome in Outcome if outcome)

DELAY_CAUSES: Final = tuple(str(cause.name).lower() for cause in DelayCause if cause)

TRANSACTION_KINDS: Final = (
    "local_transaction",
    "xa_branch",
    "xa_prepared",
    "confirm_id",
    "channel_batch",
    "spark_branch",
)
"""Holders that stand for a unit of work."""
