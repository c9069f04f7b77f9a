"""What a peer that drives the engine does with topics and their subscriptions."""

from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.frames.termini import EXPIRY_NEVER, Source, Target
from postroom.amqp.message.sections import Data, Header, Message
from tests.server.link_peer import detached, sending
from tests.server.peers import EnginePeer

DURABLE = {"durable": 2, "expiry_policy": EXPIRY_NEVER, "distribution_mode": "copy"}


def topic_source(address: str, *capabilities: str, **fields: object) -> Source:
    return Source(address=address, capabilities=["topic", *capabilities], **fields)  # type: ignore[arg-type]


def publish(peer: EnginePeer, topic: str, *texts: str) -> None:
    """Persistent messages."""
    link = sending(peer, f"publisher of {texts[0]}", Target(address=topic, capabilities=["topic"]))
    for text in texts:
        link.send(
            Message(header=Header(durable=True), body=Data([text.encode()])).encode(), text.encode(), False
        )
    peer.pump(lambda: link.unsettled_count == 0)


def close(peer: EnginePeer, link: ReceiverLink, closed: bool = True) -> None:
    link.detach(closed=closed)
    detached(peer, link)
    peer.forget()
