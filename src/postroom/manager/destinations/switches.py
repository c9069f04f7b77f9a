"""Pausing a destination, as WebLogic JMS has it: three switches, each with a meaning of its own.

*Production*: new sends are refused, to old and new senders; what is under way (commits, births) completes.

*Insertion*: new sends are refused, and what is under way completes for its caller but stays invisible: the
committed, the born, what comes back, and what the queue manager itself puts there. They wait, pending, with
the cause PAUSED, until insertion is resumed. What was visible before can be consumed.

*Consumption*: nobody is given anything; who receives sees an empty queue, not an error. Browsers still see.

What is done to a topic is done to all its subscriptions, those to come included. A switch holds until it is
lifted or the broker restarts, and beyond that if it was meant to (``durably_paused`` of the definition). What
a destination starts with else, its definition says, too.
"""

from typing import Final

from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import SwitchUnknown
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.queues.queue import Subscription

PRODUCTION: Final = "production"
INSERTION: Final = "insertion"
CONSUMPTION: Final = "consumption"
SWITCHES: Final = (PRODUCTION, INSERTION, CONSUMPTION)

SWITCH_ATTRIBUTES: Final = tuple(f"{switch}_{what}" for switch in SWITCHES for what in ("paused", "state"))

DEFAULT: Final = "default"


def at_startup(core: Core, queue: Destination) -> None:
    """Set the switches of a destination that comes into being, or back after a restart."""
    topic = destinations_of(core).topics.get(queue.topic) if isinstance(queue, Subscription) else None
    paused = _defined(core, queue.definition) if topic is None else _paused(topic)
    durably = queue.definition.durably_paused.split()
    for switch, on in zip(SWITCHES, paused, strict=True):
        turn(queue, switch, on or switch in durably)


def _paused(queue: Destination) -> tuple[bool, bool, bool]:
    switches = queue.switches
    return (switches.production_paused, switches.insertion_paused, switches.consumption_paused)


def _defined(core: Core, definition: QueueDefinition) -> tuple[bool, bool, bool]:
    """What the definition says, else that of auto-created queues, else the queue manager's option."""
    both = [definition, core.options.queue_defaults]
    options = core.options
    return (
        _chosen([each.production_paused_at_startup for each in both], options.production_paused_at_startup),
        _chosen([each.insertion_paused_at_startup for each in both], options.insertion_paused_at_startup),
        _chosen([each.consumption_paused_at_startup for each in both], options.consumption_paused_at_startup),
    )


def _chosen(words: list[str], otherwise: bool) -> bool:
    """The first word that isn't the default."""
    return next((word == "true" for word in words if word != DEFAULT), otherwise)


def turn(queue: Destination, switch: str, paused: bool) -> None:
    """Pause or resume one thing of one queue or topic. Raises SwitchUnknown."""
    if switch == PRODUCTION:
        queue.switches.production_paused = paused
    elif switch == INSERTION:
        queue.switches.insertion_paused = paused
    elif switch == CONSUMPTION:
        queue.switches.consumption_paused = paused
    else:
        raise SwitchUnknown(f"there is no {switch!r} to pause: {', '.join(SWITCHES)}")
    queue.switches.closed_to_puts = queue.switches.production_paused or queue.switches.insertion_paused


def switches_of(queue: Destination) -> dict[str, object]:
    """As the management node shows them: flags, and WebLogic's words for the states."""
    shown: dict[str, object] = {}
    for switch, on in zip(SWITCHES, _paused(queue), strict=True):
        shown[f"{switch}_paused"] = on
        shown[f"{switch}_state"] = f"{switch.capitalize()}-{'Paused' if on else 'Enabled'}"
    return shown
