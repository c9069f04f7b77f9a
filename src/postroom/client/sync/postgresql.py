"""PostgreSQL as a resource manager of two-phase commit, over psycopg: the sync face.

Generated from aio/postgresql.py by tools/async_to_sync.py: change that, and run the tool.

Needs the extra ``postgres`` (``pip install postroom[postgres]``), and a server whose
``max_prepared_transactions`` is more than 0.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from postroom.client.aio import postgresql as aio
from postroom.client.sync.caller import Driven, awaited
from postroom.model.xa import XaCode, XaFlag, Xid

__all__ = ["PostgreSQLResource"]


class PostgreSQLResource(Driven[aio.PostgreSQLResource]):
    """The share of a psycopg connection in global transactions.

    Between ``start`` and ``end`` what is done over ``connection`` belongs to the branch; psycopg refuses
    ``commit`` and ``rollback`` meanwhile. The connection is not in autocommit mode, and has one transaction
    at a time. PostgreSQL refuses to prepare what has used temporary tables, LISTEN or NOTIFY. ``name`` is
    what the decision log calls the database; None: after its system identifier, which a standby shares.
    """

    def __init__(self, connection: Connection[Any], *, name: str | None = None) -> None:
        self._inner = aio.PostgreSQLResource(awaited(connection), name=name)

    def resource_name(self) -> str:
        """Which database it is. Raises XAException: it can't be reached, or prepares no transactions."""
        return self._portal.call(self._inner.resource_name())

    def is_same_rm(self, other: PostgreSQLResource) -> bool:
        """Whether the other is a connection to the same database."""
        return self._portal.call(self._inner.is_same_rm(awaited(other)))

    def set_transaction_timeout(self, seconds: int) -> bool:
        """False: a branch has no time-out here."""
        return self._portal.call(self._inner.set_transaction_timeout(seconds))

    def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """What is done over the connection from now on belongs to the branch; TMNOFLAGS only."""
        self._portal.call(self._inner.start(xid, flags))

    def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """No more belongs to the branch: TMSUCCESS or TMFAIL. XA_RBROLLBACK where a statement has failed,
        for PostgreSQL would commit nothing of it.
        """
        self._portal.call(self._inner.end(xid, flags))

    def prepare(self, xid: Xid) -> XaCode:
        """PREPARE TRANSACTION; XA_RDONLY where it has written nothing. The connection is free afterwards."""
        return self._portal.call(self._inner.prepare(xid))

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """COMMIT PREPARED; ``one_phase``: COMMIT."""
        self._portal.call(self._inner.commit(xid, one_phase))

    def rollback(self, xid: Xid) -> None:
        """ROLLBACK, or ROLLBACK PREPARED."""
        self._portal.call(self._inner.rollback(xid))

    def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN) -> list[Xid]:
        """The prepared transactions of this database that have an Xid for a name, all with TMSTARTRSCAN."""
        return self._portal.call(self._inner.recover(flags))

    def forget(self, xid: Xid) -> None:
        """XAER_NOTA: PostgreSQL remembers nothing of what somebody else has decided."""
        self._portal.call(self._inner.forget(xid))
