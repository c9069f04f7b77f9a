"""Pausing and resuming; what each switch means is told in `switches`."""

from typing import final

from postroom.manager.destinations import registry as queues
from postroom.manager.destinations.switches import CONSUMPTION, INSERTION, turn
from postroom.manager.destinations.topic import Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.queues.queue import Queue
from postroom.manager.undeliverable.returned_entries import end_delay


def set_paused(core: Core, queue: Destination, switch: str, paused: bool, durable: bool) -> None:
    """Pause or resume one thing of a queue, or of a topic and its subscriptions; ``durable``: it is paused
    beyond a restart, too. Resuming insertion also admits sends again, unless production is paused by itself.
    Raises SwitchUnknown."""
    subscriptions = subscriptions_of(core)
    subscriptions.route_version += 1
    others = subscriptions.patterns.exactly(queue.name) if isinstance(queue, Topic) else []
    for each in (queue, *others):
        turn(each, switch, paused)
        if not paused:
            _note(core, each, switch, False)
            if switch == INSERTION and isinstance(each, Queue):
                release(core, each)
            elif switch == CONSUMPTION and isinstance(each, Queue):
                core.agenda.woken.append(each)
    if durable:
        _note(core, queue, switch, True)


def _note(core: Core, queue: Destination, switch: str, durable: bool) -> None:
    kept = [each for each in queue.definition.durably_paused.split() if each != switch]
    queues.note_pauses(core, queue, " ".join(sorted([*kept, switch] if durable else kept)))


def release(core: Core, queue: Queue) -> None:
    """Let go what insertion held back, in the order in which it was completed, up to a turn's bound."""
    if queue.switches.insertion_paused:
        return
    left = core.options.max_expired_per_turn
    entry = queue.delayed.next_parked()
    while entry is not None and left > 0:
        queue.delayed.discard(entry)
        end_delay(core, queue, entry)
        left -= 1
        entry = queue.delayed.next_parked()
    if entry is not None:
        core.agenda.set_alarm(queue, core.now_us)


@final
class PausePart(TurnPart):
    """What insertion held back goes on to be let go."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        if isinstance(destination, Queue):
            release(core, destination)
