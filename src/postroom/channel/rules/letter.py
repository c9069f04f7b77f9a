"""What a rule can look at: a message on a dead-letter queue, as its header and its descriptor describe it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeadLetter:
    """The fields that the pattern keywords name; of the dead-letter header (MQDLH) and of the message's
    descriptor (MQMD)."""

    reason: int
    """MQDLH.Reason, an MQRC_ or MQFB_ number."""
    dest_queue: str
    """MQDLH.DestQName: where it was to go."""
    dest_queue_manager: str
    format: str = ""
    """Of what the sender wrote, without the header."""
    appl_identity_data: str = ""
    put_appl_name: str = ""
    put_appl_type: int = 0
    feedback: int = 0
    message_type: int = 8
    persistence: int = 0
    """1 persistent, 0 not."""
    reply_queue: str = ""
    reply_queue_manager: str = ""
    user_id: str = ""
