"""`postroom transaction`: open transactions and XA branches of a running broker, and what an administrator
decides about branches.
"""

import json
from typing import Any, Final

import click

from postroom.cli.common.broker_connection import EXIT_BROKER, connected, json_option, requested, url_option
from postroom.cli.common.broker_group import BrokerGroup
from postroom.cli.common.tables import age_s, show_one, show_rows, shown
from postroom.model.entity_types import BRANCH_TYPE, TRANSACTION_TYPE

LOCAL: Final = "local"
XA: Final = "xa"
_HIDDEN: Final = ("identity", "type")
HEADS: Final = ("transaction", "kind", "state", "for", "sent", "received", "container", "user")


@click.group(cls=BrokerGroup, names=TRANSACTION_TYPE)
def transaction() -> None:
    """Open transactions and XA branches of a running broker."""


@transaction.command("list")
@click.argument("kind", type=click.Choice((LOCAL, XA)), required=False)
@url_option
@json_option
def list_transactions(kind: str | None, url: str, as_json: bool) -> None:
    """List the XA branches and the local transactions that are open, or only one KIND.

    A branch is named by its Xid, a local transaction by its number.
    """
    with connected(url) as connection:
        management = connection.create_management()
        found = [] if kind == LOCAL else _rows(XA, management.query(BRANCH_TYPE))
        found += [] if kind == XA else _rows(LOCAL, management.query(TRANSACTION_TYPE))
    show_rows(found, HEADS, _cells, as_json, ("for", "sent", "received"))


@transaction.command("show")
@click.argument("name")
@url_option
@json_option
def show_transaction(name: str, url: str, as_json: bool) -> None:
    """Show everything that is known of the branch, or local transaction, NAME."""
    kind = TRANSACTION_TYPE if name.isdigit() else BRANCH_TYPE
    with connected(url) as connection:
        row = connection.create_management().read(kind, name)
    show_one(row, as_json)


def _decision(verb: str, operation: str, done: str, text: str) -> click.Command:
    @click.command(verb, help=text)
    @click.argument("xid")
    @url_option
    @json_option
    def command(xid: str, url: str, as_json: bool) -> None:
        _show(requested(url, operation, BRANCH_TYPE, xid), xid, done, as_json)

    return command


_XID: Final = "XID may have the wildcards * and ? and then means all branches of that name that allow it."

transaction.add_command(
    _decision(
        "commit",
        "HEURISTIC-COMMIT",
        "heuristically committed",
        f"Decide for a branch in its transaction manager's place: it must be idle or prepared. {_XID}",
    )
)
transaction.add_command(
    _decision(
        "rollback",
        "HEURISTIC-ROLLBACK",
        "heuristically rolled back",
        f"Decide against a branch in its transaction manager's place: it must be idle or prepared. {_XID}",
    )
)
transaction.add_command(
    _decision(
        "forget", "DELETE", "forgot", f"Forget how a branch was heuristically decided, for good. {_XID}"
    )
)


def _show(answer: dict[str, Any], xid: str, done: str, as_json: bool) -> None:
    """What was decided; the rest of what was meant, with the reasons, on standard error."""
    if as_json:
        click.echo(json.dumps({"xids": answer["xids"], "refused": answer["refused"]}))
    else:
        for each in answer["xids"]:
            click.echo(f"{done} {each}")
    for reason in answer["refused"]:
        click.echo(reason, err=True)
    if not answer["xids"]:
        if not answer["refused"]:
            click.echo(f"no branch matches {xid}", err=True)
        raise SystemExit(EXIT_BROKER)


def _rows(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"kind": kind, **{key: row[key] for key in row if key not in _HIDDEN}} for row in rows]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        *(row["name"], row["kind"], row["state"], f"{age_s(row['since_us']):,} s"),
        *(shown(row["puts"]), shown(row["receipts"]), row["container_id"], row["user"]),
    ]
