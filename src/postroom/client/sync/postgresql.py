"""PostgreSQL as a resource manager of two-phase commit, over psycopg: the sync face.

Generated from aio/postgresql.py by tools/async_to_sync.py: change that, and run the tool.

Needs the extra ``postgres`` (``pip install postroom[postgres]``), and a server whose
``max_prepared_transactions`` is more than 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import Connection, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import SQL

from postroom.client.exceptions import IllegalStateException, XAException
from postroom.model.xa import XaCode, XaFlag, Xid, XidInvalid

__all__ = ["PostgreSQLResource"]

ABOUT_SERVER: Final = (
    "SELECT system_identifier, current_database(), current_setting('max_prepared_transactions')::int"
    " FROM pg_control_system()"
)
ABOUT_TRANSACTION: Final = (
    "SET CONSTRAINTS ALL IMMEDIATE; SELECT pg_current_xact_id_if_assigned() IS NOT NULL"
)
"""What is deferred is checked now, while the transaction can still be left; and did it write anything?"""
MAX_PART_BYTES: Final = 32
"""Of a gtrid or bqual: psycopg takes 64 characters, and these are in hex."""
GONE_CLASSES: Final = ("08", "57")
"""Classes of SQLSTATE: the connection is broken, or the server shuts down."""


class PostgreSQLResource:
    """The share of a psycopg connection in global transactions.

    Between ``start`` and ``end`` what is done over ``connection`` belongs to the branch; psycopg refuses
    ``commit`` and ``rollback`` meanwhile. The connection is not in autocommit mode, and has one transaction
    at a time. PostgreSQL refuses to prepare what has used temporary tables, LISTEN or NOTIFY. ``name`` is
    what the decision log calls the database; None: after its system identifier, which a standby shares.
    """

    def __init__(self, connection: Connection[Any], *, name: str | None = None) -> None:
        self._connection = connection
        self._name = name
        self._is_known = False
        self._branch: Xid | None = None
        """The branch of this connection, from start until it is prepared or decided."""

    def resource_name(self) -> str:
        """Which database it is. Raises XAException: it can't be reached, or prepares no transactions."""
        if not self._is_known:
            with self._errors("the name", XaCode.XAER_RMERR):
                self._identify_server()
        return self._name or ""

    def _identify_server(self) -> None:
        was_idle = self._connection.info.transaction_status == TransactionStatus.IDLE
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(ABOUT_SERVER)
            system, database, max_prepared = cursor.fetchone() or ("", "", 0)
        if was_idle and self._connection.info.transaction_status == TransactionStatus.INTRANS:
            self._connection.rollback()
        if not max_prepared:
            raise XAException(
                "PostgreSQL prepares no transactions: set max_prepared_transactions to the number that may "
                "be prepared at a time, and restart it",
                XaCode.XAER_RMERR,
            )
        self._name = self._name or f"postgresql:{system}/{database}"
        self._is_known = True

    def is_same_rm(self, other: PostgreSQLResource) -> bool:
        """Whether the other is a connection to the same database."""
        return self.resource_name() == other.resource_name()

    def set_transaction_timeout(self, seconds: int) -> bool:
        """False: a branch has no time-out here."""
        return False

    def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """What is done over the connection from now on belongs to the branch; TMNOFLAGS only."""
        if flags != XaFlag.TMNOFLAGS:
            raise XAException("PostgreSQL can't join or resume a branch", XaCode.XAER_INVAL)
        if self._branch is not None:
            raise XAException(f"the connection has branch {self._branch} already", XaCode.XAER_PROTO)
        if self._connection.autocommit:
            raise IllegalStateException("a connection in autocommit mode can't take part in a transaction")
        self.resource_name()
        with self._errors("start", XaCode.XAER_RMERR):
            if self._connection.info.transaction_status == TransactionStatus.INTRANS:
                raise XAException("the connection is in a transaction of its own", XaCode.XAER_OUTSIDE)
            self._connection.tpc_begin(as_psycopg(xid))
        self._branch = xid

    def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """No more belongs to the branch: TMSUCCESS or TMFAIL. XA_RBROLLBACK where a statement has failed,
        for PostgreSQL would commit nothing of it.
        """
        if flags not in (XaFlag.TMSUCCESS, XaFlag.TMFAIL):
            raise XAException("PostgreSQL can't suspend a branch", XaCode.XAER_INVAL)
        self._check(xid)
        with self._errors("end", XaCode.XAER_RMERR):
            failed = self._connection.info.transaction_status == TransactionStatus.INERROR
        if failed and flags == XaFlag.TMSUCCESS:
            raise XAException("a statement has failed in the transaction", XaCode.XA_RBROLLBACK)

    def prepare(self, xid: Xid) -> XaCode:
        """PREPARE TRANSACTION; XA_RDONLY where it has written nothing. The connection is free afterwards."""
        self._check(xid)
        with self._errors("prepare", XaCode.XA_RBOTHER):
            if not self._has_written():
                self._commit_one_phase(xid)
                return XaCode.XA_RDONLY
            self._branch = None
            self._prepare(xid)
        return XaCode.XA_OK

    def _has_written(self) -> bool:
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(ABOUT_TRANSACTION, prepare=False)
            cursor.nextset()
            return cursor.fetchone() == (True,)

    def _prepare(self, xid: Xid) -> None:
        """Not ``tpc_prepare``, after which psycopg does nothing on the connection but decide; nor could it
        leave a transaction that PostgreSQL has refused to prepare. Here it believes that the transaction was
        given up, and sends nothing, for the connection is out of it either way.
        """
        statement = SQL("PREPARE TRANSACTION {}").format(str(as_psycopg(xid)))
        try:
            self._connection.execute(statement, prepare=False)
        finally:
            self._connection.tpc_rollback()

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """COMMIT PREPARED; ``one_phase``: COMMIT."""
        if one_phase:
            self._check(xid)
            self._commit_one_phase(xid)
            return
        with self._errors("commit", XaCode.XA_RETRY):
            self._connection.tpc_commit(as_psycopg(xid))

    def _commit_one_phase(self, xid: Xid) -> None:
        self._branch = None
        with self._errors("commit", XaCode.XA_RBOTHER):
            self._connection.tpc_commit()

    def rollback(self, xid: Xid) -> None:
        """ROLLBACK, or ROLLBACK PREPARED."""
        with self._errors("rollback", XaCode.XAER_RMERR):
            if self._branch == xid:
                self._branch = None
                self._connection.tpc_rollback()
            else:
                self._connection.tpc_rollback(as_psycopg(xid))

    def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN) -> list[Xid]:
        """The prepared transactions of this database that have an Xid for a name, all with TMSTARTRSCAN."""
        if not flags & XaFlag.TMSTARTRSCAN:
            return []
        with self._errors("recover", XaCode.XAER_RMERR):
            database = self._connection.info.dbname
            found = self._connection.tpc_recover()
        xids = [from_psycopg(each) for each in found if each.database == database]
        return [xid for xid in xids if xid is not None]

    def forget(self, xid: Xid) -> None:
        """XAER_NOTA: PostgreSQL remembers nothing of what somebody else has decided."""
        raise XAException("PostgreSQL keeps no heuristic outcomes", XaCode.XAER_NOTA)

    @contextmanager
    def _errors(self, verb: str, default: XaCode) -> Iterator[None]:
        """Turns psycopg's errors into XAException; ``default`` for what X/Open has no code of its own."""
        try:
            yield
        except psycopg.Error as error:
            code = XaCode.XAER_RMFAIL if self._connection.closed else code_of(error, default)
            raise XAException(f"PostgreSQL, {verb}: {error}", code) from error

    def _check(self, xid: Xid) -> None:
        if self._branch != xid:
            raise XAException(f"branch {xid} is not on this connection", XaCode.XAER_NOTA)


def as_psycopg(xid: Xid) -> psycopg.Xid:
    """As psycopg has it: gtrid and bqual as text, in hex."""
    if max(len(xid.gtrid), len(xid.bqual)) > MAX_PART_BYTES or xid.format_id < 0:
        raise XAException(
            f"PostgreSQL can't take Xid {xid}: gtrid and bqual have up to {MAX_PART_BYTES} bytes, the format "
            "id is 0 or more",
            XaCode.XAER_INVAL,
        )
    return psycopg.Xid.from_parts(xid.format_id, xid.gtrid.hex(), xid.bqual.hex())


def from_psycopg(xid: psycopg.Xid) -> Xid | None:
    """The Xid that a prepared transaction is named by; None where somebody else has named it."""
    if xid.format_id is None or xid.bqual is None:
        return None
    try:
        return Xid(xid.format_id, bytes.fromhex(xid.gtrid), bytes.fromhex(xid.bqual))
    except (ValueError, XidInvalid):
        return None


def code_of(error: psycopg.Error, default: XaCode) -> XaCode:
    """X/Open's code for an error of PostgreSQL."""
    state = error.sqlstate
    if state is None:
        return XaCode.XAER_RMFAIL if isinstance(error, psycopg.OperationalError) else XaCode.XAER_PROTO
    if state.startswith(GONE_CLASSES):
        return XaCode.XAER_RMFAIL
    for kind, code in CODES.items():
        if isinstance(error, kind):
            return code if default == XaCode.XA_RBOTHER or code < 0 else default
    return default


CODES: Final[dict[type[psycopg.Error], XaCode]] = {
    errors.UndefinedObject: XaCode.XAER_NOTA,
    errors.DuplicateObject: XaCode.XAER_DUPID,
    errors.DeadlockDetected: XaCode.XA_RBDEADLOCK,
    errors.SerializationFailure: XaCode.XA_RBTRANSIENT,
    errors.IntegrityError: XaCode.XA_RBINTEGRITY,
    errors.InFailedSqlTransaction: XaCode.XA_RBROLLBACK,
}
