"""What the settings of a destination about sending must be together: quota, thresholds, times of birth."""

from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.model.schedule import ScheduleInvalid, parse_schedule

if TYPE_CHECKING:
    from postroom.manager.kernel.options import QueueDefinition

POLICY_FIFO: Final = "fifo"
POLICY_PREEMPTIVE: Final = "preemptive"
POLICIES: Final = (POLICY_FIFO, POLICY_PREEMPTIVE)

MODE_PERSISTENT: Final = "persistent"
MODE_NON_PERSISTENT: Final = "non-persistent"
DELIVERY_MODES: Final = (MODE_PERSISTENT, MODE_NON_PERSISTENT)
MAX_PRIORITY: Final = 9


def check_sending(definition: "QueueDefinition") -> None:
    """Raise DefinitionInvalid, naming the key, unless these settings can be."""
    whose = f"queue {definition.name!r}"
    if definition.quota and (definition.max_messages >= 0 or definition.max_bytes >= 0):
        what = f"{whose}: quota and max_messages or max_bytes: it is under one quota only"
        raise DefinitionInvalid(what, "quota")
    _check_birth(definition)
    check_thresholds(definition, definition.max_messages, definition.max_bytes)


def _check_birth(definition: "QueueDefinition") -> None:
    if not definition.delivery_schedule:
        return
    if definition.time_to_deliver_ms >= 0:
        raise DefinitionInvalid(
            f"queue {definition.name!r}: delivery_schedule and time_to_deliver_ms: give one of them",
            "delivery_schedule",
        )
    try:
        parse_schedule(definition.delivery_schedule)
    except ScheduleInvalid as error:
        what = f"queue {definition.name!r}: delivery_schedule: {error}"
        raise DefinitionInvalid(what, "delivery_schedule") from error


def check_thresholds(definition: "QueueDefinition", max_messages: int, max_bytes: int) -> None:
    """Raise DefinitionInvalid unless low ≤ high ≤ maximum, for messages and for bytes."""
    whose = f"queue {definition.name!r}"
    check_order(
        whose, "messages", definition.messages_threshold_low, definition.messages_threshold_high, max_messages
    )
    check_order(whose, "bytes", definition.bytes_threshold_low, definition.bytes_threshold_high, max_bytes)


def check_order(whose: str, what: str, low: int, high: int, maximum: int) -> None:
    """Raise DefinitionInvalid unless low ≤ high ≤ maximum; −1: off, or no maximum."""
    if (low < 0) != (high < 0):
        both = f"{whose}: {what}_threshold_low and {what}_threshold_high belong together: give both"
        raise DefinitionInvalid(both, f"{what}_threshold_low")
    if low > high:
        raise _wrong(whose, f"{what}_threshold_low", low, f"must not be above {what}_threshold_high ({high})")
    if high > maximum >= 0:
        raise _wrong(
            whose, f"{what}_threshold_high", high, f"must not be above the quota's maximum ({maximum})"
        )


def _wrong(whose: str, key: str, value: object, must: str) -> DefinitionInvalid:
    return DefinitionInvalid(f"{whose}: {key} is {value!r}, {must}", key)
