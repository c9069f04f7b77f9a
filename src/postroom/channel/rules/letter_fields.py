"""What a rule can look at, found in a message: IBM MQ's fields where Postroom has them.

The dead-letter header (MQDLH) is a message annotation. The fields of the descriptor (MQMD) are where IBM's
JMS classes have them: in properties of the message (``JMS_IBM_…``, ``JMSX…``) and in its header.
"""

from typing import Final

from postroom.amqp.message.message_fields import MessageFields
from postroom.channel.rules.letter import DeadLetter
from postroom.manager.headers.dead_letter_header import DEAD_LETTER, header_of
from postroom.model.mq import MessageType
from postroom.model.names import split_address

_REPLY_TO: Final = "amqp.reply_to"


def letter_of(message: MessageFields, queue_manager: str) -> DeadLetter | None:
    """What rules look at; None where the message has no dead-letter header.

    ``queue_manager``: the one that it lies at, which a reply-to without a queue manager means.
    """
    header = header_of(message.annotation(DEAD_LETTER))
    if header is None:
        return None
    reply_queue, reply_queue_manager = split_address(_text(message.value(_REPLY_TO)))
    if reply_queue and not reply_queue_manager:
        reply_queue_manager = queue_manager
    usual = MessageType.REQUEST if reply_queue else MessageType.DATAGRAM
    return DeadLetter(
        reason=header.reason,
        dest_queue=header.queue,
        dest_queue_manager=header.queue_manager,
        format=header.format,
        appl_identity_data=_text(message.application_property("JMS_IBM_MQMD_ApplIdentityData")),
        put_appl_name=_text(message.application_property("JMSXAppID")),
        put_appl_type=_number(message.application_property("JMS_IBM_PutApplType"), 0),
        feedback=_number(message.application_property("JMS_IBM_Feedback"), 0),
        message_type=_number(message.application_property("JMS_IBM_MsgType"), usual),
        persistence=int(message.durable),
        reply_queue=reply_queue,
        reply_queue_manager=reply_queue_manager,
        user_id=_text(message.value("JMSXUserID")),
    )


def _text(value: object) -> str:
    return str(value) if isinstance(value, str) else ""


def _number(value: object, default: int) -> int:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else default
