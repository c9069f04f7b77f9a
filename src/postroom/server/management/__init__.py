"""What the management node does: the operations of the AMQP Management draft (working draft 9) on this
broker's nouns.

One module a noun, each a class with the face of `noun.Noun`; `node` has the table of them and the operations
about all (QUERY and the GETs). Requests and answers here are plain values (`request`); `management_links`
carries them.
"""

from postroom.server.management.node import Management
from postroom.server.management.request import Later, Request, Response

__all__ = [
    "Later",
    "Management",
    "Request",
    "Response",
]
