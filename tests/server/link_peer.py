"""What a peer that drives the engine does with its links."""

from postroom.amqp.engine.events import LinkDetached, TransferReceived
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Message
from tests.server.peers import EnginePeer


def payload(text: str) -> bytes:
    return Message(body=Data([text.encode()])).encode()


def sending(peer: EnginePeer, name: str, target: Target, **attach: object) -> SenderLink:
    link = peer.session().attach_sender(name, Source(), target, **attach)  # type: ignore[arg-type]
    peer.pump(lambda: link.attached and link.credit > 0)
    return link


def receiving(peer: EnginePeer, name: str, source: Source, **attach: object) -> ReceiverLink:
    link = peer.session().attach_receiver(name, source, Target(), **attach)  # type: ignore[arg-type]
    peer.pump(lambda: link.attached)
    return link


def send(peer: EnginePeer, link: SenderLink, *texts: str) -> None:
    for text in texts:
        link.send(payload(text), text.encode(), False)
    peer.pump(lambda: link.unsettled_count == 0)


def transfers(peer: EnginePeer, link: ReceiverLink, count: int) -> list[TransferReceived]:
    def arrived() -> list[TransferReceived]:
        return [event for event in peer.of(TransferReceived) if event.link is link]

    peer.pump(lambda: len(arrived()) >= count)
    return arrived()


def detached(peer: EnginePeer, link: Link) -> LinkDetached:
    peer.pump(lambda: any(event.link is link for event in peer.of(LinkDetached)))
    return next(event for event in peer.of(LinkDetached) if event.link is link)
