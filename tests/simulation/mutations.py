"""The planted bugs, each a change of one place: the broker as if somebody had got it wrong."""

from tests.simulation.channels.mutations import CHANNEL_MUTATIONS
from tests.simulation.integrity_mutations import INTEGRITY_MUTATIONS
from tests.simulation.mutation import Mutation
from tests.simulation.sink_mutations import SINK_MUTATIONS
from tests.simulation.spark_mutations import SPARK_MUTATIONS

MUTATIONS: dict[str, Mutation] = {
    "answer-before-the-sync": Mutation(
        "server/connection/broker.py",
        "while waiting and waiting[0].position <= durable_through:",
        "while waiting:",
    ),
    "record-checksum-ignored": Mutation(
        "ledger/storage/journal_scan.py",
        "if crc32(data[start : start + header.records_bytes()]) != header.records_crc:",
        "if crc32(data[start : start + header.records_bytes()]) < 0:",
    ),
    "torn-bodies-accepted": Mutation(
        "ledger/storage/journal_scan.py",
        "return nothing_behind and not bodies_intact(data, block)",
        "return False",
    ),
    "position-reused-after-restart": Mutation(
        "ledger/ledger.py",
        "first_position=found.state.position + 1,",
        "first_position=found.state.position,",
    ),
    "confirm-recorded-as-return": Mutation(
        "manager/kernel/transitions.py",
        "    n.EVENT_CONFIRM, n.GET_UNCONFIRMED, _CONFIRMED, n.CONSUMER",
        "    n.EVENT_RELEASE, n.GET_UNCONFIRMED, n.AVAILABLE, n.CONSUMER",
    ),
    "held-entries-forgotten-at-restart": Mutation(
        "manager/restore.py",
        "    for row in rows:\n        _take_back_one",
        "    for row in [row for row in rows if row.holder_kind == 0]:\n        _take_back_one",
    ),
    "returns-to-the-end-of-the-queue": Mutation(
        "manager/undeliverable/returned_entries.py",
        "        add_again(core, as_queue(entry.queue), entry)\n        return True",
        "        entry.place = core.ledger.next_position\n        add_again(core, entry.queue, entry)\n"
        "        return True",
    ),
    "commit-record-without-the-last-put": Mutation(
        "manager/transactions/commit.py",
        "groups = _groups_of_puts(core, transaction.puts, transaction.kind)\n    taken",
        "groups = _groups_of_puts(core, transaction.puts[:-1], transaction.kind)\n    taken",
    ),
    "rollback-not-recorded": Mutation(
        "manager/transactions/commit.py",
        "        decision(core, transaction.id, transaction.kind, event, groups)",
        "        decision(core, transaction.id, transaction.kind, event, [])",
    ),
    "rolled-back-messages-made-available": Mutation(
        "manager/transactions/commit.py",
        "groups = groups_by(transaction.puts, n.PUT_UNCONFIRMED, transaction.kind, event)",
        "groups = groups_by(transaction.puts, n.PUT_UNCONFIRMED, transaction.kind, n.EVENT_CONFIRM)",
    ),
    "rejected-message-has-no-child": Mutation(
        "manager/undeliverable/dead_letters.py",
        "make_child(core, entry, target, n.EVENT_DEAD_LETTER,"
        " _annotations(core, entry, reason, description))\n",
        "pass\n",
    ),
    "checkpoint-forgets-what-is-not-plain": Mutation(
        "ledger/fold/checkpoint.py",
        '"explicit": _raw(state.explicit),',
        '"explicit": _raw(state.explicit[:0]),',
    ),
    "compaction-drops-live-bodies": Mutation(
        "ledger/upkeep/maintenance.py",
        "        if len(run.wants):\n",
        "        if len(run.files) > 1:\n",
        ("tests/ledger/test_ledger.py::test_reading_beside_compaction_in_threads",),
    ),
    "compaction-forgets-the-lists-of-chunks": Mutation(
        "ledger/upkeep/compaction.py",
        "return Run(taken, live.resolved(np.concatenate(pieces)))",
        "return Run(taken, np.concatenate(pieces))",
        ("tests/ledger/reading/test_body_reader.py",),
    ),
    "live-events-file-removed": Mutation(
        "ledger/upkeep/maintenance.py",
        "if one.span.number <= covered and one.span.number not in needed:",
        "if one.span.number <= covered:",
    ),
    "folder-not-synced-after-a-new-file": Mutation(
        "ledger/storage/journal.py",
        "            bool(self._head),\n",
        "            False,\n",
    ),
    "events-file-renamed-unsynced": Mutation(
        "ledger/storage/disk.py",
        "                unsynced = 0\n    file.sync()\n",
        "                unsynced = 0\n",
    ),
    "lost-link-keeps-its-messages": Mutation(
        "manager/consuming/registry.py",
        "        come_back(core, entry, event, 0)\n    consumer.held.clear()",
        "        pass\n    consumer.held.clear()",
    ),
    "redelivered-without-a-count": Mutation(
        "manager/kernel/transitions.py",
        "    if rule == n.COUNT_IF_SENT:\n        return sent",
        "    if rule == n.COUNT_IF_SENT:\n        return 0",
    ),
    "bodies-looked-up-one-block-off": Mutation(
        "ledger/storage/body_file.py",
        'np.searchsorted(firsts, serials, "right") - 1',
        'np.searchsorted(firsts, serials, "left") - 1',
    ),
    "seal-names-the-block-before": Mutation(
        "ledger/storage/journal.py",
        "return Seal(self.identity.file_number, self.identity.epoch, self.last_position, self._last_crc)",
        "return Seal(self.identity.file_number, self.identity.epoch, self.last_position - 1, self._last_crc)",
    ),
    "sealed-before-the-successor-is-durable": Mutation(
        "ledger/ledger.py",
        "            self._succeeded = journal.header.seal\n",
        "            self._maintenance.roll(number_before, journal.header.seal)\n",
    ),
    "blocked-send-accepted-before-it-has-room": Mutation(
        "manager/producing/send.py",
        "    blocked_sends.enter(core, blocked)\n",
        "    blocked_sends.enter(core, blocked)\n    core.effects.accept(blocked.sink, blocked.token)\n",
    ),
    "quota-off-by-one": Mutation(
        "manager/kernel/quota_pool.py",
        "        if self.max_messages >= 0 and self.messages + count > self.max_messages:\n",
        "        if self.max_messages >= 0 and self.messages > self.max_messages:\n",
    ),
    "subscription-missed-in-a-routing-set": Mutation(
        "manager/destinations/routing.py",
        "    queues.sort(key=lambda queue: int(queue.id))\n    route",
        "    queues.sort(key=lambda queue: int(queue.id))\n    queues = queues[:1]\n    route",
    ),
    "routing-set-forgotten-at-restart": Mutation(
        "ledger/fold/fold.py",
        "    for indexes, queues in _spell_out(several, sets[several], routing_sets(image)):",
        "    for indexes, queues in _spell_out(several, sets[several], {}):",
    ),
    "acquired-once-forgotten-at-restart": Mutation(
        "ledger/fold/fold.py",
        "    if taken.any():\n        rows",
        "    if False:\n        rows",
    ),
    "published-entries-of-the-wrong-arrival": Mutation(
        "ledger/fold/fold.py",
        "        _add_entries(state, image, arrivals.take(indexes), indexes, queues)",
        "        mixed = arrivals if len(indexes) == len(arrivals) else arrivals.take(indexes)\n"
        "        _add_entries(state, image, mixed, indexes, queues)",
        ("tests/ledger/fold/test_fold.py",),
    ),
    "parked-entries-forgotten-on-resume": Mutation(
        "manager/administration/pausing.py",
        "        end_delay(core, queue, entry)\n        left -= 1",
        "        left -= 1",
    ),
    "lock-not-kept-over-a-restart": Mutation(
        "manager/restore.py",
        "        if not allowed(entry, n.EVENT_RESTART):\n",
        "        if entry.holder_kind == n.BROWSE_LOCK:\n"
        "            step(core, entry, n.EVENT_UNLOCK, 0, 0, None, 0)\n"
        "            queue.bands[entry.priority].recover(entry)\n"
        "            note_unbodied(queue, entry)\n"
        "            return\n"
        "        if not allowed(entry, n.EVENT_RESTART):\n",
    ),
    "unborn-delivered-at-once-after-a-restart": Mutation(
        "manager/queues/delayed_entries.py",
        "        rows = np.frombuffer(packed, _ROWS)\n        for at",
        '        rows = np.frombuffer(packed, _ROWS).copy()\n        rows["due_us"] = 1\n        for at',
    ),
    "selector-not-asked-at-arrival": Mutation(
        "manager/queues/placement.py",
        "        verdict = cursor.selector.matches(fields)\n",
        "        verdict = True\n",
    ),
    "confirm-id-forgotten-at-restart": Mutation(
        "manager/message_store/entry_verbs.py",
        "    store.holders[confirm_id, lock_id] = holder\n",
        "",
    ),
    "undone-get-loses-its-place": Mutation(
        "manager/message_store/entry_verbs.py",
        "        _free(core, entry, n.EVENT_UNDO, detail)\n",
        "        entry.place = core.ledger.next_position\n        _free(core, entry, n.EVENT_UNDO, detail)\n",
    ),
    "resent-put-leaves-the-first": Mutation(
        "manager/message_store/put_verbs.py",
        "            self._replace(core, earlier)\n",
        "            pass\n",
    ),
    "confirm-leaves-the-last": Mutation(
        "manager/message_store/verbs.py",
        "        for entry in held:\n            if entry.state == n.PUT_UNCONFIRMED:",
        "        for entry in held[:-1] or held:\n            if entry.state == n.PUT_UNCONFIRMED:",
        ("tests/manager/message_store/test_verbs.py",),
    ),
    "undone-get-through-a-lock-is-free": Mutation(
        "manager/message_store/entry_verbs.py",
        "    close_if_empty(core, as_queue(entry.queue), holder)\n    if by.over:\n",
        "    close_if_empty(core, as_queue(entry.queue), holder)\n    if True:\n",
        ("tests/manager/message_store/test_verbs.py",),
    ),
    "undo-forgets-locks": Mutation(
        "manager/message_store/verbs.py",
        "                held += by.entries.values()\n",
        "                pass\n",
        ("tests/manager/message_store/test_random.py",),
    ),
    "receipts-not-in-the-commit-record": Mutation(
        "manager/transactions/commit.py",
        "    groups += groups_by(taken, n.GET_UNCONFIRMED, transaction.kind, n.EVENT_CONFIRM)\n",
        "    groups += groups_by(taken[1:], n.GET_UNCONFIRMED, transaction.kind, n.EVENT_CONFIRM)\n",
    ),
    "moved-message-stays": Mutation(
        "manager/administration/message_moves.py",
        "    step(core, entry, n.EVENT_MOVE, 0, 0, None, 0, detail)\n    ended(core, entry)\n",
        "    entry.queue.bands[entry.priority].give_back(entry)\n",
    ),
    "members-of-a-unit-do-not-wait": Mutation(
        "manager/queues/units_of_order.py",
        "return unit is not None and self.first_of(unit) != serial",
        "return False",
    ),
    "redelivery-without-its-delay": Mutation(
        "manager/undeliverable/returned_entries.py",
        "        entry.due_us = core.now_us + delay_us\n",
        "        entry.due_us = core.now_us + 1\n",
    ),
    "prepare-not-recorded": Mutation(
        "manager/transactions/commit.py",
        "    decision(core, transaction.id, transaction.kind, n.EVENT_PREPARE, groups)\n",
        "",
        ("tests/manager/transactions/test_xa_restarts.py",),
    ),
    "unprepared-branch-survives-a-restart": Mutation(
        "manager/transactions/xa_verbs.py",
        "        if row.holder_kind != n.XA_PREPARED:\n            continue\n        detail = row.detail\n",
        "        if row.holder_kind not in (n.XA_BRANCH, n.XA_PREPARED):\n            continue\n"
        '        detail = {"since_us": 0, **row.detail}\n',
    ),
    "prepared-branch-times-out": Mutation(
        "manager/transactions/xa_branch.py",
        "        if branch.state in UNPREPARED:\n            if",
        "        if branch.state in (*UNPREPARED, BranchState.PREPARED):\n            if",
    ),
    "receipts-of-a-branch-forgotten-at-restart": Mutation(
        "manager/transactions/xa_verbs.py",
        "        transaction.receipts.append(Receipt(None, entry, n.EVENT_CONFIRM, True))",
        "        pass",
        ("tests/manager/transactions/test_xa_restarts.py",),
    ),
    "branch-commits-without-its-last-put": Mutation(
        "manager/transactions/xa_verbs.py",
        "    transactions.decide_for(core, branch.transaction)\n    _finish(core, branch)",
        "    branch.transaction.puts = branch.transaction.puts[:-1]\n"
        "    transactions.decide_for(core, branch.transaction)\n    _finish(core, branch)",
    ),
    **CHANNEL_MUTATIONS,
    **INTEGRITY_MUTATIONS,
    **SINK_MUTATIONS,
    **SPARK_MUTATIONS,
}
