"""Which operations of the management node the API doesn't offer, and why. A test compares it with all."""

from collections.abc import Mapping
from typing import Final

from postroom.model.entity_types import BRANCH_TYPE, SINK_TYPE, SPARK_SUBSCRIPTION_TYPE

_XA: Final = "of a transaction manager, which speaks AMQP in the session that works on the branch"
_SINK: Final = "of a task of Spark's sink, whose messages come over the same connection"
_SPARK: Final = "of a streaming query, which says by it what its checkpoint has"

NOT_OFFERED: Final[Mapping[tuple[str, str], str]] = {
    **{(BRANCH_TYPE, each): _XA for each in ("END", "PREPARE", "COMMIT", "ROLLBACK", "RECOVER", "FORGET")},
    **{(SINK_TYPE, each): _SINK for each in ("BEGIN", "SEAL", "ROLLBACK", "COMMIT")},
    **{(SPARK_SUBSCRIPTION_TYPE, each): _SPARK for each in ("PLAN", "REGISTER", "CONFIRM")},
}
"""By type and operation."""
