"""Definitions of names that lead to other queue managers (MQ's local definitions of remote queues).

One definition may serve three ways, by what is left blank:

- a **remote queue**: ``remote_queue`` is the name of a queue at ``remote_queue_manager``;
- a **queue-manager alias**: ``remote_queue`` is blank, and the definition's own name stands for
  ``remote_queue_manager`` in addresses ``QUEUE@NAME``;
- a **reply-to alias**: a message whose reply-to is the definition's name leaves with ``remote_queue`` and
  ``remote_queue_manager`` instead.
"""

from dataclasses import dataclass
from typing import Final

from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.name_rules import RESERVED_PREFIX, check_name
from postroom.model.settings import record_of

KIND_REMOTE: Final = "remote"
MAX_DESCRIPTION_CHARS: Final = 256


@dataclass(frozen=True)
class RemoteQueueDefinition:
    """What a name stands for, as it is written to the ledger. MQ's keyword stands in brackets."""

    name: str
    remote_queue: str = ""
    """The queue's name at its queue manager [RNAME]; empty: a queue-manager alias."""
    remote_queue_manager: str = ""
    """The queue manager that has it [RQMNAME]."""
    transmission_queue: str = ""
    """Where its messages wait for a channel [XMITQ]; empty: the one that has the queue manager's name, else
    the default one."""
    description: str = ""
    """For people."""

    def check(self) -> None:
        """Raise NameNotAllowed or DefinitionInvalid, naming the key."""
        check_name(self.name)
        if self.name.startswith(RESERVED_PREFIX):
            raise DefinitionInvalid(f"{self.name!r}: names of that kind belong to the broker", "name")
        for key in ("remote_queue", "remote_queue_manager", "transmission_queue"):
            value = getattr(self, key)
            if value:
                check_name(value)
        if not self.remote_queue and not self.remote_queue_manager:
            raise DefinitionInvalid(
                f"remote queue {self.name!r}: neither remote_queue nor remote_queue_manager says what it "
                "stands for",
                "remote_queue",
            )
        if len(self.description) > MAX_DESCRIPTION_CHARS:
            raise DefinitionInvalid(
                f"remote queue {self.name!r}: a description of {len(self.description)} characters; at most "
                f"{MAX_DESCRIPTION_CHARS}",
                "description",
            )

    def to_record(self) -> dict[str, object]:
        """As JSON-able fields."""
        return record_of(self)

    def to_ledger(self) -> dict[str, object]:
        """As `to_record`, with its kind and without what is blank."""
        fields_set = {name: value for name, value in self.to_record().items() if value != ""}
        return {"kind": KIND_REMOTE, **fields_set}
