"""The states of connection, session and link, and what a peer may send in each: literal tables.

The specification draws one diagram for each of the three (part 2, sections 2.4.6, 2.5.5 and 2.6), each with a
dozen states, because it tracks both ends at once. The two ends are independent: what this end may send
depends on what it has sent, what it may receive on what the peer has sent, and only "we have ended it, so
ignore the rest" crosses over. So each end of each of the three is one small machine here. The specification's
names are pairs of ours, for instance (local, remote) = (OPEN, UNOPENED) is OPEN_SENT or OPEN_PIPE, (CLOSED,
OPEN) is CLOSE_SENT or DISCARDING.

A row of a table is a state of the receiving side, a column a performative by the low half of its descriptor
(open is 0x10, column 0; close is 0x18, column 8). A cell is the next state, or one of the refusals below.
"""

from typing import Final

UNOPENED: Final = 0
"""Of one end of a connection, session or link: nothing sent yet."""
OPEN: Final = 1
"""Open, begin or attach sent."""
CLOSED: Final = 2
"""Close, end or detach sent."""

IGNORED: Final = -1
"""Legal to arrive, of no interest: the thing has ended, and this was under way."""
ILLEGAL: Final = -2
"""The connection is closed with amqp:illegal-state."""
NO_SESSION: Final = -3
"""A frame on a channel where no session is: the connection is closed with amqp:illegal-state."""
IN_USE: Final = -4
"""The session is ended with amqp:session:handle-in-use."""
UNATTACHED: Final = -5
"""The session is ended with amqp:session:unattached-handle."""

_X: Final = IGNORED
_E: Final = ILLEGAL
_N: Final = NO_SESSION
_H: Final = IN_USE
_U: Final = UNATTACHED

PERFORMATIVES: Final = (
    "open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close",
)  # fmt: skip

# The peer's end of the connection.
CONNECTION_TABLE: Final = [
    #open begin attch flow  xfer  disp  dtch  end   close
    [OPEN,  _E,   _E,   _E,   _E,   _E,   _E,   _E,   _E    ],  # UNOPENED: open comes first
    [_E,    OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, CLOSED],  # OPEN
    [_X,    _X,   _X,   _X,   _X,   _X,   _X,   _X,   _X    ],  # CLOSED: close is the last frame
    [_X,    _X,   _X,   _X,   _X,   _X,   _X,   _X,   CLOSED],  # 3, DISCARDING: we have closed
]  # fmt: skip

# The peer's end of a session; columns open and close never get here.
SESSION_TABLE: Final = [
    #open begin attch flow  xfer  disp  dtch  end     close
    [_E,    OPEN, _N,   _N,   _N,   _N,   _N,   _N,     _E],  # UNOPENED: begin comes first
    [_E,    _E,   OPEN, OPEN, OPEN, OPEN, OPEN, CLOSED, _E],  # OPEN
    [_E,    OPEN, _N,   _N,   _N,   _N,   _N,   _N,     _E],  # CLOSED: the channel is free again
    [_E,    _E,   _X,   _X,   _X,   _X,   _X,   CLOSED, _E],  # 3, DISCARDING: we have ended it
]  # fmt: skip

# The peer's end of a link, for the performatives that name a handle.
LINK_TABLE: Final = [
    #open begin attch flow  xfer  disp  dtch    end  close
    [_E,    _E,   OPEN, _U,   _U,   _E,   _U,     _E,  _E],  # UNOPENED
    [_E,    _E,   _H,   OPEN, OPEN, _E,   CLOSED, _E,  _E],  # OPEN
    [_E,    _E,   OPEN, _U,   _U,   _E,   _U,     _E,  _E],  # CLOSED: the handle is free again
    [_E,    _E,   _H,   _X,   _X,   _E,   CLOSED, _E,  _E],  # 3, DISCARDING: we have detached it
]  # fmt: skip

DISCARDING: Final = 3
"""The row of the tables for a peer's end that is still open after ours has closed."""

COLUMN_ATTACH: Final = 2
COLUMN_FLOW: Final = 3
COLUMN_TRANSFER: Final = 4
COLUMN_DETACH: Final = 6
