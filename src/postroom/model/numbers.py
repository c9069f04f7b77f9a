"""The codes of `codes` as plain numbers, which compiled code compares without a look-up; of each enumeration
that is the index of a table, also how many it has.

A test holds each of them, by its name, to its member, and knows no other number.
"""

from typing import Final

# State
START: Final = 0
PUT_UNCONFIRMED: Final = 1
DELAYED: Final = 2
AVAILABLE: Final = 3
LOCKED_FOR_BROWSE: Final = 4
GET_UNCONFIRMED: Final = 5
BROWSE_GET_UNCONFIRMED: Final = 6
DELETED: Final = 7
STATES: Final = 8

# HolderKind
NO_HOLDER: Final = 0
CONSUMER: Final = 1
SUSPENDED_LINK: Final = 2
LOCAL_TRANSACTION: Final = 3
XA_BRANCH: Final = 4
XA_PREPARED: Final = 5
CONFIRM_ID: Final = 6
CHANNEL_BATCH: Final = 7
BROWSE_LOCK: Final = 8
SPARK_SUBSCRIPTION: Final = 9
SPARK_BRANCH: Final = 10
HOLDERS: Final = 11

# Event
EVENT_PUT: Final = 1
EVENT_PUT_HELD: Final = 2
EVENT_DUE: Final = 3
EVENT_DELAY: Final = 4
EVENT_GET: Final = 5
EVENT_ACQUIRE: Final = 6
EVENT_LOCK: Final = 7
EVENT_UNLOCK: Final = 8
EVENT_CONFIRM: Final = 9
EVENT_UNDO: Final = 10
EVENT_RELEASE: Final = 11
EVENT_FAIL: Final = 12
EVENT_EXPIRE: Final = 13
EVENT_DELETE: Final = 14
EVENT_PURGE: Final = 15
EVENT_DISCARD: Final = 16
EVENT_MOVE: Final = 17
EVENT_DEAD_LETTER: Final = 18
EVENT_REDIRECT: Final = 19
EVENT_RETURN_TO_SENDER: Final = 20
EVENT_FORWARD: Final = 21
EVENT_ASSIGN: Final = 22
EVENT_PREPARE: Final = 23
EVENT_SUSPEND: Final = 24
EVENT_RESUME: Final = 25
EVENT_LINK_LOST: Final = 26
EVENT_RESTART: Final = 27
EVENTS: Final = 28

# Outcome
OUTCOME_NONE: Final = 0
OUTCOME_CONSUMED: Final = 1
OUTCOME_EXPIRED: Final = 2
OUTCOME_DELETED: Final = 3
OUTCOME_PURGED: Final = 4
OUTCOME_MOVED: Final = 5
OUTCOME_DEAD_LETTERED: Final = 6
OUTCOME_REDIRECTED: Final = 7
OUTCOME_RETURNED_TO_SENDER: Final = 8
OUTCOME_FORWARDED: Final = 9
OUTCOME_DISCARDED: Final = 10
OUTCOME_ROLLED_BACK: Final = 11
OUTCOME_LOST: Final = 12

# DelayCause
UNBORN: Final = 1
REDELIVERY_DELAY: Final = 2
PAUSED: Final = 4
ORDERED: Final = 8

# ArrivalFlag
FLAG_DURABLE: Final = 1
FLAG_BODY_STORED: Final = 2
FLAG_BODY_CHUNKED: Final = 4
FLAG_BODY_SHARED: Final = 8
FLAG_ADVERSE: Final = 16
FLAG_PUBLISHED: Final = 32
FLAG_DEAD_LETTER_ELIGIBLE: Final = 64
FLAG_RECEIVED: Final = 256
FLAG_REPORTS: Final = 512
FLAG_TAPPED: Final = 1024
FLAG_ACQUIRED: Final = 2048
FLAG_EXPIRY_REPLACED: Final = 4096

# Count, a rule of the cells
COUNT_SAME: Final = 0
COUNT_IF_SENT: Final = 1
COUNT_ONE_MORE: Final = 2
COUNT_IF_QUEUE_COUNTS: Final = 3

# Feedback (of IBM MQ)
FEEDBACK_EXPIRATION: Final = 258
FEEDBACK_COA: Final = 259
FEEDBACK_COD: Final = 260

# TransitionFlag
FLAG_SENT: Final = 1
FLAG_FIRST: Final = 2
