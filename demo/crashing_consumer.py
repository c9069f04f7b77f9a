"""A consumer process that dies in the middle of its work: ``python -m demo.crashing_consumer URL QUEUE HELD
DONE``.

It takes HELD messages with Qpid Proton, accepts the first DONE, and is gone without closing anything.
"""

from __future__ import annotations

import os
import signal
import sys

from proton import Delivery
from proton.utils import BlockingConnection


def main(url: str, queue: str, held: int, done: int) -> None:
    connection = BlockingConnection(url)
    receiver = connection.create_receiver(queue, credit=0)  # no prefetch: each receive asks for one
    for _ in range(held):
        receiver.receive(timeout=10)
    for _ in range(done):
        receiver.settle(Delivery.ACCEPTED)
    # The broker answers in the order it reads: after this attach it has read the outcomes, too.
    connection.create_sender(queue)
    print(f"received {held}, accepted {done}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
