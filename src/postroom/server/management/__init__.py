"""What the management node does: the operations of the AMQP Management draft (working draft 9) on what this
broker has.

One module of `entities` for each type of manageable entity, each a class with the face of
`entity_type.EntityType`; `node` has the table of them and the operations about all (QUERY and the GETs).
Requests and answers are plain values (`request`); `links` carries them. May import ``channels``, ``links``,
``kernel`` and ``configuration`` of the server.
"""

from postroom.server.management.node import Management
from postroom.server.management.request import Later, Request, Response

__all__ = [
    "Later",
    "Management",
    "Request",
    "Response",
]
