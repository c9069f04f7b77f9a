"""The message store of a queue, with the verbs of MQ Everyplace: the sync face.

Generated from aio/message_store.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from postroom.client.aio import message_store as aio
from postroom.client.messages.message import Body
from postroom.client.messages.stored_messages import (
    EVERY_MESSAGE,
    BrowseLock,
    MessageEvent,
    MessageFilter,
    StoredMessage,
    UniqueId,
)
from postroom.client.sync.portal import Closable

__all__ = ["MessageListener", "MessageStore"]


class MessageStore(Closable[aio.MessageStore]):
    """The message store of one queue. Made by :meth:`Connection.create_message_store`.

    Every verb raises NoMatchingMessageException (Except_Q_NoMatchingMsg) where no message is in a state in
    which the caller may see it, InvalidDestinationException where the queue is gone, and what requests to the
    broker raise.
    """

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._inner.queue

    def put(
        self, message: Body, *, confirm_id: int = 0, unique_id: UniqueId | None = None, resend: bool = False
    ) -> UniqueId:
        """putMessage: returns the message's unique id, which the broker derives where none is given.

        ``confirm_id`` 0: it is available at once. Otherwise it is invisible until it is confirmed. ``resend``
        (Msg_Resend): the answer to an earlier put was lost; that copy is replaced. Raises
        DuplicateMessageException for a unique id that is there already, ResourceAllocationException (queue
        full).
        """
        return self._portal.call(
            self._inner.put(message, confirm_id=confirm_id, unique_id=unique_id, resend=resend)
        )

    def confirm_put(self, unique_id: UniqueId, confirm_id: int = 0) -> None:
        """confirmPutMessage: the message is available from now on; a second time nothing happens.

        ``confirm_id`` is that of the put; 0 only where the queue has ``confirm_id_required`` off.
        """
        self._portal.call(self._inner.confirm_put(unique_id, confirm_id))

    def get(self, filter: MessageFilter = EVERY_MESSAGE, *, confirm_id: int = 0) -> StoredMessage:
        """getMessage: the first that matches, by priority and then arrival.

        ``confirm_id`` 0: it is gone with the answer. Otherwise it is hidden until confirmed or undone. With a
        lock id in the filter: one of those that a browse has locked.
        """
        return self._portal.call(self._inner.get(filter, confirm_id=confirm_id))

    def wait(
        self, filter: MessageFilter = EVERY_MESSAGE, *, timeout_s: float, confirm_id: int = 0
    ) -> StoredMessage:
        """waitForMessage: as :meth:`get`, but one that is not there yet is waited for, ``timeout_s``
        seconds.
        """
        return self._portal.call(self._inner.wait(filter, timeout_s=timeout_s, confirm_id=confirm_id))

    def confirm_get(self, unique_id: UniqueId, confirm_id: int = 0) -> None:
        """confirmGetMessage: the message that was got is gone; a second time nothing happens. ``confirm_id``
        as for :meth:`confirm_put`.
        """
        self._portal.call(self._inner.confirm_get(unique_id, confirm_id))

    def browse(self, filter: MessageFilter = EVERY_MESSAGE, *, just_uid: bool = False) -> list[StoredMessage]:
        """browseMessages: all that match, in order, without touching them; ``just_uid``: ids only."""
        return self._portal.call(self._inner.browse(filter, just_uid=just_uid))

    def browse_and_lock(
        self,
        filter: MessageFilter = EVERY_MESSAGE,
        *,
        just_uid: bool = False,
        confirm_id: int = 0,
        lease_s: float = 0,
    ) -> BrowseLock:
        """browseMessagesAndLock: all that match now, hidden from everybody who hasn't the lock id.

        Messages that come later are not locked. What is still locked after ``lease_s`` seconds (0: as long as
        the broker lets locks hold) is unlocked. ``confirm_id``: an undo of it unlocks them, too.
        """
        return self._portal.call(
            self._inner.browse_and_lock(filter, just_uid=just_uid, confirm_id=confirm_id, lease_s=lease_s)
        )

    def unlock(self, lock_id: int, unique_id: UniqueId | None = None) -> int:
        """unlockMessage: one, or all that are still locked under the lock id; returns how many."""
        return self._portal.call(self._inner.unlock(lock_id, unique_id))

    def undo(self, confirm_id: int) -> int:
        """undo: one step back for everything under the confirm id; returns how many messages that were.

        A put is taken back, what was got is available again, or locked again if it was got through a lock;
        what a browse with that confirm id has locked is unlocked.
        """
        return self._portal.call(self._inner.undo(confirm_id))

    def confirm(self, confirm_id: int) -> int:
        """confirm: everything that was put or got under the confirm id, together; returns how many."""
        return self._portal.call(self._inner.confirm(confirm_id))

    def delete(self, unique_id: UniqueId, *, lock_id: int | None = None) -> None:
        """deleteMessage: an available one, or with its lock id a locked one."""
        self._portal.call(self._inner.delete(unique_id, lock_id=lock_id))

    def create_listener(self, filter: MessageFilter = EVERY_MESSAGE) -> MessageListener:
        """addMessageListener: hears of messages that match and become available from now on."""
        return MessageListener(self._portal, self._portal.call(self._inner.create_listener(filter)))

    def close(self) -> None:
        """Close the links to the broker; what is held stays held."""
        super().close()


class MessageListener(Closable[aio.MessageListener]):
    """Hears of messages without taking them: ``for event in listener``.

    Made by :meth:`MessageStore.create_listener`. A message that somebody takes before the listener is told
    gives no event.
    """

    def __iter__(self) -> MessageListener:
        return self

    def __next__(self) -> MessageEvent:
        return self._portal.next(self._inner)

    def receive(self, timeout_s: float) -> MessageEvent | None:
        """The next event, or None when there was none within ``timeout_s`` seconds."""
        return self._portal.call(self._inner.receive(timeout_s))

    def close(self) -> None:
        """Hear no more."""
        super().close()
