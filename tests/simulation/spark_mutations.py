"""Planted bugs of Spark subscriptions, which the worlds with a query must find: see
`tests.simulation.mutants`.
"""

from tests.simulation.mutation import SPARK_QUERIES, Mutation


def _mutation(path: str, old: str, new: str) -> Mutation:
    return Mutation(path, old, new, SPARK_QUERIES)


SPARK_MUTATIONS: dict[str, Mutation] = {
    "more-confirmed-than-the-position": _mutation(
        "manager/queues/held_entries.py",
        "            if read_i64_le(self.marks, middle * MARK_BYTES) <= position:\n",
        "            if read_i64_le(self.marks, middle * MARK_BYTES) <= position + 40:\n",
    ),
    "position-of-assignment-not-in-the-checkpoint": _mutation(
        "ledger/fold/fold.py",
        '    rows["acquired_position"] = np.where(own, np.where(',
        '    rows["acquired_position"] = 0 * np.where(own, np.where(',
    ),
    "held-by-spark-lost-at-the-restart": _mutation(
        "manager/spark/subscription_verbs.py",
        "    for rows in recovered.assigned:\n",
        "    for rows in recovered.assigned[:0]:\n",
    ),
    "assignment-not-recorded": _mutation(
        "manager/spark/subscription_verbs.py",
        "            write_all(core)\n",
        "            pass\n",
    ),
    "return-not-recorded": _mutation(
        "manager/kernel/group_transitions.py",
        "    serials = [int(entry.serial) for entry in entries]\n",
        "    serials = [int(entry.serial) for entry in entries[1:]]\n",
    ),
    "unread-history-removed": Mutation(
        "ledger/retention/leases.py",
        "        also = Floors(self._also, NEVER)\n",
        "        also = Floors(NEVER, NEVER)\n",
        ("tests/ledger/retention/test_leases.py",),
    ),
    "assigned-and-left-on-the-queue": _mutation(
        "manager/spark/assignment.py",
        "        take_out(queue, entry)\n        queue.bodies.ahead = 0\n",
        "        queue.bodies.ahead = 0\n",
    ),
}
