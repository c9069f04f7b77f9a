"""Planted bugs of Spark sinks, which the worlds with a job that writes must find: see
`tests.simulation.mutants`.
"""

from tests.simulation.mutation import SINKS, Mutation


def _mutation(path: str, old: str, new: str) -> Mutation:
    return Mutation(path, old, new, SINKS)


SINK_MUTATIONS: dict[str, Mutation] = {
    "losers-not-rolled-back": _mutation(
        "manager/spark/sink_verbs.py",
        "    _lose(core, app, batch_id)\n    _remember(",
        "    _remember(",
    ),
    "digest-ignored": _mutation(
        "manager/spark/sink_verbs.py",
        "    if batch_id in app.batches and app.batches[batch_id] == contact.digest:\n",
        "    if batch_id in app.batches:\n",
    ),
    "decision-in-a-block-of-its-own": Mutation(
        "manager/spark/sink_verbs.py",
        "        transactions.close(core, branch.transaction)\n    _lose(",
        "        transactions.close(core, branch.transaction)\n    core.ledger._close_block()\n    _lose(",
        ("tests/manager/spark/test_sink_restarts.py",),
    ),
    "decided-batch-not-recorded": _mutation(
        "manager/spark/sink_verbs.py",
        "    app.decided_us = core.now_us\n    record_state(core, app)\n",
        "    app.decided_us = core.now_us\n",
    ),
    "earlier-runs-let-in": _mutation(
        "manager/spark/sink_verbs.py",
        "    if contact.run_id in app.past_runs:\n",
        "    if False:\n",
    ),
    "new-run-leaves-the-branches-before": _mutation(
        "manager/spark/sink_verbs.py",
        "    for branch in list(app.branches.values()):\n",
        "    for branch in list(app.branches.values())[:0]:\n",
    ),
    "seal-not-recorded": _mutation(
        "manager/spark/sink_verbs.py",
        "    core.holders.open(transaction.id, n.SPARK_BRANCH, transaction.detail)\n",
        "",
    ),
    "sink-branch-gone-with-the-restart": _mutation(
        "manager/spark/sink_verbs.py",
        "    transaction.puts.append(entry)\n",
        "",
    ),
    "non-persistent-messages-in-branches-not-stored": _mutation(
        "manager/producing/put.py",
        "    if holder_kind == n.XA_BRANCH or holder_kind == n.SPARK_BRANCH:\n",
        "    if holder_kind == n.XA_BRANCH:\n",
    ),
}
