"""The names of the data sources' options: one that is none of them is refused, with the nearest that is.

Spark hands a source every option that it is given: one that is misspelled would be as if it weren't there.
Needs no Spark.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

PLACE: Final = ("path", "paths", "token", "cache")
"""Where a ledger is read."""
SOURCE: Final = (
    *PLACE,
    *("startingPosition", "fromPosition", "toPosition", "fromTime", "toTime"),
    *("queues", "maxRows", "maxBytes", "partitionRecords"),
    *("carried", "pushdown", "failOnDataLoss", "onMissingLedger"),
)
BROKER: Final = ("broker", "tlsCaFile", "tlsCertificateFile", "tlsKeyFile", "tlsKeyPassword", "tlsVerifyHost")
TAP: Final = (*SOURCE, *BROKER, "mode", "checkBodies", "lease", "leaseDurationS", "leaseBytes")
OF_CONSUME: Final = ("subscription", "confirm", "onNewCheckpoint", "brokerTimeoutS", "pollMs")
CONSUME: Final = (*TAP, *OF_CONSUME)
SINK: Final = (
    *BROKER,
    *("queue", "queueColumn", "app", "txnApp", "txnVersion", "abovePosition", "acceptDuplicates"),
    *("checkpoint", "maxMessagesPerBranch", "brokerTimeoutS"),
)
TABLE: Final = ("path", "table", "tableFormat", "raw", "version", "asOf", "ongoing")

SPARKS_OWN: Final = frozenset(
    ["path", "checkpointlocation", "queryname", "outputmode", "serialization.format"]
)
"""What Spark itself puts among the options of a query or of a table in its catalog."""

NEAR: Final = 0.6
"""How much alike a name and the one that is meant are, from 0 to 1."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one; "" if none is like it."""
    folded = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), folded, 1, NEAR)
    return folded[found[0]] if found else ""


def unknown_option(options: Mapping[str, str], known: Iterable[str], what: str) -> str:
    """What is wrong with the first option that `what` doesn't have; "" if all are known."""
    names = tuple(known)
    folded = {name.lower() for name in names} | SPARKS_OWN
    for name in sorted(options):
        if name.lower() not in folded:
            near = nearest(name, names)
            hint = f'did you mean "{near}"?' if near else f"there are {', '.join(names)}"
            return f'{what} has no option "{name}"; {hint}'
    return ""
