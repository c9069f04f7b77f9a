"""Messages of a sending channel that can't travel: reported, returned, discarded, or dead letters here.

The same ladder decides as at a receiving end (`channel.undelivered`); but here each message is on the
transmission queue, in a batch or held outside of them, and ends there.
"""

from typing import Final

from postroom.manager.channels import batches
from postroom.manager.channels.channel import Batch, SendingEnd
from postroom.manager.channels.undelivered import Action, OnFailure, ReceivedMessage
from postroom.manager.consuming import settlement
from postroom.manager.headers.dead_letter_header import header_for, with_dead_letter_header
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import NotAllowed
from postroom.manager.kernel.transitions import step
from postroom.manager.producing import discard
from postroom.manager.producing.refusal import refusal_of
from postroom.manager.producing.report_original import Original
from postroom.manager.queues.placement import ended
from postroom.manager.reports import reports
from postroom.manager.undeliverable.rewritten_entries import make_rewritten
from postroom.model import numbers as n
from postroom.model.mq import Undelivered, reason_name

_ENDS: Final = {
    Action.DEAD_LETTER: n.EVENT_DEAD_LETTER,
    Action.RETURN_TO_SENDER: n.EVENT_RETURN_TO_SENDER,
    Action.DISCARD: n.EVENT_DISCARD,
    Action.DROP: n.EVENT_DISCARD,
}


def refuse(
    core: Core, end: SendingEnd, action: Action, entry: Entry, message: ReceivedMessage, why: Undelivered
) -> Undelivered | None:
    """Do ``action`` about ``entry``, which can't travel for the reason ``why``; what has to be put for it and
    can't be. ``message`` has its sections without a transmission header. Raises NotAllowed for one that the
    end doesn't hold."""
    owner = entry.owner
    if end.closed or not (isinstance(owner, Batch) or owner is end.consumer):
        raise NotAllowed(f"channel {end.channel.name!r}: message {entry.serial} isn't on its way by it")
    if action is Action.PUT_REPORT:
        return _put_report(core, message, why)
    if action is Action.DEAD_LETTER:
        failure = _put_dead_letter(core, entry, message, why)
        if failure is not None:
            return failure
    if isinstance(owner, Batch):
        batches.let_go(owner, entry)
    else:
        settlement.let_go(core, end.consumer, entry)
    dropped: dict[str, object] = {"dropped": True} if action is Action.DROP else {}
    detail = discard.detail_of(why, {"channel": end.channel.name, **dropped})
    if _ENDS[action] == n.EVENT_DISCARD:
        core.effects.discard(entry.queue.name, reason_name(why.reason), why.description)
    step(core, entry, _ENDS[action], 0, 0, None, 0, detail)
    ended(core, entry)
    return None


def _put_report(core: Core, message: ReceivedMessage, why: Undelivered) -> Undelivered | None:
    original = Original(message.body)
    made = reports.exception_report(core, original, message.head, why)
    if made is None:
        return None
    put = reports.put_to if message.requested is OnFailure.RETURN else reports.put_somewhere
    return put(core, original.reply_to, made[0], made[1], None)


def _put_dead_letter(
    core: Core, entry: Entry, message: ReceivedMessage, why: Undelivered
) -> Undelivered | None:
    queue = reports.dead_letter_queue(core)
    if isinstance(queue, Undelivered):
        return queue
    own = core.options.queue_manager
    header = header_for(why.reason, why.queue, why.queue_manager or own, message.fields(), own, core.now_us)
    header.expiry_ms = int(entry.expiry_us // 1000)
    sections = with_dead_letter_header(message.body, header)
    reason = refusal_of(core, queue, message.head, len(sections))
    if reason is not None:
        return Undelivered(reason[0], queue.name, own, reason[1])
    make_rewritten(core, entry, queue, n.EVENT_DEAD_LETTER, sections)
    return None
