"""The rules of the audit and the verdicts that break none, by name, each with what a row of it means."""

from collections.abc import Mapping
from typing import Final

SEQUENCE_RULES: Final[Mapping[str, str]] = {
    "lost arrival": "an entry's first event is no arrival, though history or checkpoint would tell of it",
    "checkpoint differs": "a checkpoint says otherwise than the events of an entry, or counts otherwise",
    "second arrival": "an entry arrives again",
    "event after end": "something happens to an entry that has ended",
    "broken sequence": "an event's from-state is not the state that the event before it led to",
    "illegal transition": "no cell of the life cycle allows this event from this state to that",
    "held by another": "an entry is given up by another holder than the one that had it",
    "time went back": "an event is older than the one before it",
}
"""About the events of one entry; of several that an event breaks, the first counts."""

FAMILY_RULES: Final[Mapping[str, str]] = {
    "missing child": "an entry was moved, and nothing arrived in its stead",
    "second child": "an entry was moved, and more than one message arrived in its stead",
    "child without move": "a message arrived in the stead of an entry that was not moved",
    "missing report": "an entry was returned to its sender, and the report that has it is not there",
    "stored message lost": "an entry whose message was stored is written off as lost",
}
"""About what an entry was made of, and what was made of it."""

TRANSACTION_RULES: Final[Mapping[str, str]] = {
    "half committed": "part of what a transaction or batch held was committed, part was rolled back",
    "two decisions": "what a transaction or batch held was committed by more than one record",
    "left out of the decision": "a transaction or batch is decided, and an entry is still its own",
    "used after its decision": "a transaction or batch took an entry after it was committed",
    "left out of its batch": "a batch of a Spark sink was committed, and a branch of it outlived that",
    "passed over": "a Spark subscription confirmed a position, and kept an entry assigned before it",
}
"""About all that one transaction, branch, channel batch or Spark subscription puts and gets."""

ORDER_RULES: Final[Mapping[str, str]] = {
    "out of order": "a message was available after a later one of its producer, destination and priority",
}

DUPLICATE_RULES: Final[Mapping[str, str]] = {
    "taken again": "a destination took a message id that its duplicate window remembered",
    "arrived twice": "one link's send arrived twice: same message id, creation time and size",
}

SUM_RULES: Final[Mapping[str, str]] = {
    "unbalanced queue": "opening and arrivals of a queue are not what is held and what has ended",
    "unbalanced manager": "the same of a whole queue manager",
    "opening differs": "the checkpoint says that more or less was held before the history than is seen of it",
}

CROSSING_RULES: Final[Mapping[str, str]] = {
    "missing arrival": "a persistent message was forwarded, and no ledger received it",
    "received twice": "more than one message arrived for one that was forwarded",
    "arrival without forward": "a message came through a channel, and its sender says that it stayed",
}
"""About messages between queue managers."""

TABLE_RULES: Final[Mapping[str, str]] = {
    "table gone back": "a table is gone, or ends before a position that it had come to",
    "events changed": "the table of events has other rows than were written: more, fewer, or other values",
    "table differs": "a row of a table is not what the events fold to: missing, too many, or other values",
}

RULES: Final[Mapping[str, str]] = {
    **SEQUENCE_RULES,
    **FAMILY_RULES,
    **TRANSACTION_RULES,
    **ORDER_RULES,
    **DUPLICATE_RULES,
    **SUM_RULES,
    **CROSSING_RULES,
    **TABLE_RULES,
}
"""Every rule and what a row of it means."""

CROSSING_VERDICTS: Final[Mapping[str, str]] = {
    "arrived": "forwarded once, received once",
    "in doubt": "in a batch that the sender has not heard of; received or not",
    "lost": "not persistent; forwarded outside a batch, never received",
    "written off": "not persistent; received, and lost on the sender's side in a crash before it knew",
    "elsewhere": "forwarded to a queue manager whose ledger is not audited, or received from one",
    "older than history": "the side that would tell has dropped its history",
    "under way": "too new to be judged",
}
"""What a crossing can be that breaks no rule; "older than history" proves nothing."""

DUPLICATE_VERDICTS: Final[Mapping[str, str]] = {
    "moved": "made of a message that had the id: moved, replayed, dead-lettered, redirected",
    "report": "put by the queue manager itself, a report with the id of what it is about",
    "hop": "came through a channel; that it came once is for the crossings to say",
    "repeated": "the same link gave the id again, to another message as far as the ledger tells",
    "resent": "another link sent it: its sender did not learn what became of the first",
}
"""What an arrival can be whose id its destination had before, that breaks no rule."""

BEGINNING: Final = "the history begins at position {first:,}, and no checkpoint tells what was before"
"""Why nothing of a ledger is proven."""
