"""Planted bugs of channels, which the worlds of several queue managers must find: see
`tests.simulation.mutants`.
"""

from tests.simulation.mutation import CHANNELS, Mutation


def _mutation(path: str, old: str, new: str) -> Mutation:
    return Mutation(path, old, new, CHANNELS)


CHANNEL_MUTATIONS: dict[str, Mutation] = {
    "batch-confirmed-before-it-is-durable": _mutation(
        "server/channels/receiving_link.py",
        "        answer = BatchAnswer(self, batch, delivery_id)\n",
        "        answer = Asker()\n        answer.answered = lambda payload, now_us: None\n"
        "        machine.confirmed(batch)\n        self._accept(delivery_id)\n",
    ),
    "last-batch-not-recorded-with-its-messages": _mutation(
        "manager/channels/receiving_end.py",
        "    end.partner.committed = channels.write_partner(core, end.channel, end.partner)\n",
        "",
    ),
    "resynchronisation-always-commits": _mutation(
        "manager/channels/registry.py",
        "            arrived = at + 1\n",
        "            arrived = at + 1\n    arrived = len(channel.batches)\n",
    ),
    "resynchronisation-always-backs-out": _mutation(
        "manager/channels/registry.py",
        "            arrived = at + 1\n",
        "            arrived = 0\n",
    ),
    "lost-link-backs-out-what-is-in-doubt": _mutation(
        "manager/channels/sending_end.py",
        "    for batch in (end.batch, *reversed(end.full)):\n",
        "    for batch in (end.batch, *reversed(end.full), *reversed(end.in_doubt)):\n",
    ),
    "lost-link-forwards-what-is-in-doubt": _mutation(
        "manager/channels/sending_end.py",
        "    consumers.close_reader(core, end.consumer, False)\n",
        "    consumers.close_reader(core, end.consumer, False)\n"
        "    for batch in end.in_doubt:\n        _decided(channel, batch)\n        forward(core, batch)\n",
    ),
    "half-a-batch-stays-when-the-link-is-lost": _mutation(
        "manager/channels/receiving_end.py",
        "    roll_back(core, end)\n    end.closed = True\n",
        "    transactions.decide_for(core, end.transaction)\n"
        "    transactions.close(core, end.transaction)\n    end.closed = True\n",
    ),
    "all-batches-have-one-name": _mutation(
        "manager/channels/channel.py",
        'return Batch(id, pack(">QII", int(now_us), int(id), crc32(self.name.encode())))',
        'return Batch(id, pack(">QII", 1, 1, crc32(self.name.encode())))',
    ),
    "undeliverable-message-forgotten": _mutation(
        "server/channels/receiving_link.py",
        "            self.undelivered(message, failure, now_us)\n",
        "            del message\n",
    ),
    "batch-in-doubt-of-nothing-persistent-forgotten": Mutation(
        "manager/restore.py",
        "    for transaction in prepared.values():\n        _restore_ids",
        "    for channel in channels.channels_of(core).by_name.values():\n"
        "        channel.batches = [batch for batch in channel.batches if batch.entries]\n"
        "    for transaction in prepared.values():\n        _restore_ids",
        ("tests/manager/channels/test_random.py",),
    ),
    "channel-in-doubt-sleeps-after-a-restart": _mutation(
        "server/channels/supervisor.py",
        "if has_work and (channel.channel.batches or self._has_work(name)):",
        "if has_work and self._has_work(name):",
    ),
    "persistent-messages-travel-outside-batches": _mutation(
        "manager/channels/batches.py",
        "    if end.fast and entry.flags & n.FLAG_DURABLE == 0:\n",
        "    if end.fast:\n",
    ),
    "fast-messages-forgotten-when-the-partner-refuses": _mutation(
        "server/channels/sending_link.py",
        "        if (lost or self.left) and not end.closed:",
        "        if self._outside:",
    ),
    "message-of-a-batch-put-at-once": _mutation(
        "manager/channels/receiving_end.py",
        "    put_on(core, end, queue, head, sections, sequence, origin_serial, fast)\n    return None\n",
        "    put_on(core, end, queue, head, sections, sequence, origin_serial, True)\n    return None\n",
    ),
}
