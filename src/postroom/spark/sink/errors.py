"""What a sink refuses, and what the broker refuses it, with what to do."""

from collections.abc import Mapping

from postroom.ledger.errors import LedgerError

FENCED = "postroom:sink-fenced"
QUERY_REPLACED = "postroom:sink-query-replaced"
BATCH_REPLACED = "postroom:sink-batch-replaced"
BRANCH_UNKNOWN = "postroom:sink-branch-unknown"


class SinkOptionError(LedgerError, ValueError):
    """An option or a column of the sink is missing or has no meaning."""


class SinkError(LedgerError, RuntimeError):
    """The batch was not written. Whatever a task has sent of it is invisible, and will be rolled back."""


class SinkFenced(SinkError):
    """A later run writes for this app: this one has no say any more."""


class QueryReplaced(SinkError):
    """Another query has written for this app: the checkpoint is another one."""


class BatchReplaced(SinkError):
    """The broker has decided a batch of this id, with other offsets: the checkpoint has lost its end."""


class BranchUnknown(SinkError):
    """What a task has sent is gone: its lease ended, or somebody rolled it back."""


class CommitUnanswered(SinkError):
    """Nobody knows whether the batch is decided; the broker does."""


ABOVE = (
    "To go on, start it with abovePosition=<column>: rows up to the highest position that was written,"
    " {position}, are dropped, so nothing is sent twice. Or with acceptDuplicates=true: what was written"
    " before may be written again"
)
NO_POSITION = (
    "No position was recorded, so abovePosition can't help now. To go on, start it with"
    " acceptDuplicates=true: what was written before may be written again; or from offsets that follow those,"
    " after the command postroom sink forget"
)


def refused(condition: str | None, description: str, info: Mapping[str, object], app: str) -> SinkError:
    """What a refusal of the broker means. `info` names the ids and offsets that the broker has recorded."""
    found = {name: info.get(name) for name in ("query_id", "batch_id", "offsets", "position", "digest")}
    choices = NO_POSITION if found["position"] is None else ABOVE.format(position=found["position"])
    if condition == FENCED:
        return SinkFenced(
            f"a later run writes for app {app!r}: {description}. Two queries, or two runs of one, can't write"
            " for one app at a time; give each its own app"
        )
    if condition == QUERY_REPLACED:
        return QueryReplaced(
            f"app {app!r} was written by query {found['query_id']} up to batch {found['batch_id']}, offsets"
            f" {found['offsets']}, and this is another query: it has another checkpoint. {choices}"
        )
    if condition == BATCH_REPLACED:
        return BatchReplaced(
            f"batch {found['batch_id']} of query {found['query_id']} for app {app!r} is decided with digest"
            f" {found['digest']}, offsets {found['offsets']}, and this is another batch of that id: the"
            f" checkpoint has lost its last entries. {choices}"
        )
    if condition == BRANCH_UNKNOWN:
        return BranchUnknown(
            f"what was sent for app {app!r} is gone, nothing of the batch is written: {description}. Start"
            " the query again: the batch is written anew"
        )
    return SinkError(f"the broker refused the sink for app {app!r}: {description} ({condition})")
