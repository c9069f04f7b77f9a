"""The descriptors of all composite types and sections: domain 0x0000_0000, and their symbolic twins.

Sources: AMQP 1.0 part 2 section 2.7, part 3 sections 3.2, 3.4 and 3.5, part 4 section 4.5, part 5 section
5.3.3.
"""

from typing import Final

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

ERROR: Final = 0x1D

RECEIVED: Final = 0x23
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
SOURCE: Final = 0x28
TARGET: Final = 0x29

COORDINATOR: Final = 0x30
DECLARE: Final = 0x31
DISCHARGE: Final = 0x32
DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34

SASL_MECHANISMS: Final = 0x40
SASL_INIT: Final = 0x41
SASL_CHALLENGE: Final = 0x42
SASL_RESPONSE: Final = 0x43
SASL_OUTCOME: Final = 0x44

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

CODE_OF_SYMBOL: Final = {
    "amqp:open:list": OPEN,
    "amqp:begin:list": BEGIN,
    "amqp:attach:list": ATTACH,
    "amqp:flow:list": FLOW,
    "amqp:transfer:list": TRANSFER,
    "amqp:disposition:list": DISPOSITION,
    "amqp:detach:list": DETACH,
    "amqp:end:list": END,
    "amqp:close:list": CLOSE,
    "amqp:error:list": ERROR,
    "amqp:received:list": RECEIVED,
    "amqp:accepted:list": ACCEPTED,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": RELEASED,
    "amqp:modified:list": MODIFIED,
    "amqp:source:list": SOURCE,
    "amqp:target:list": TARGET,
    "amqp:coordinator:list": COORDINATOR,
    "amqp:declare:list": DECLARE,
    "amqp:discharge:list": DISCHARGE,
    "amqp:declared:list": DECLARED,
    "amqp:transactional-state:list": TRANSACTIONAL_STATE,
    "amqp:sasl-mechanisms:list": SASL_MECHANISMS,
    "amqp:sasl-init:list": SASL_INIT,
    "amqp:sasl-challenge:list": SASL_CHALLENGE,
    "amqp:sasl-response:list": SASL_RESPONSE,
    "amqp:sasl-outcome:list": SASL_OUTCOME,
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}
