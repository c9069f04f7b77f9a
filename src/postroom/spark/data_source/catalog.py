"""Tables of Spark's catalog: ``CREATE TABLE t USING postroom OPTIONS (path '…')``.

Spark 4.3 keeps a table's options, shows them to a Python source when the table is created, and gives them to
it never again: a read has only the options of its own query. What it does give back is the schema that the
source told then. So the options are remembered in the metadata of its first column; but for secrets, which
are said with each query (``SELECT … FROM t WITH (token = '…')``) or kept by a view.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

LOCATION: Final = "location"
PATH: Final = "path"
CATALOGS_OWN: Final = frozenset(
    [LOCATION, "provider", "owner", "external", "is_managed_location", "comment", "collation"]
)
"""What Spark puts among the options where a table is created."""
OPTION_PREFIX: Final = "option."
"""Each option comes under a name that begins so, too."""

SECRETS: Final = frozenset(["token", "broker", "tlskeypassword"])
"""The options that are or may have passwords: the catalog shows what it has."""

_REMEMBERED: Final = "postroom.options"


def is_creating(options: Mapping[str, str]) -> bool:
    """Whether these are the options with which a table is created."""
    return bool(CATALOGS_OWN & {name.lower() for name in options})


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are the source's, names in lower case; the location of a table is its path."""
    named = {name.lower(): text for name, text in options.items()}
    own = {
        name: text
        for name, text in named.items()
        if name not in CATALOGS_OWN and not name.startswith(OPTION_PREFIX)
    }
    if LOCATION in named and not own.get(PATH) and not own.get("paths"):
        own[PATH] = named[LOCATION]
    return own


def remembering(struct: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a source; with its options, where a table is being created."""
    if not is_creating(options):
        return struct
    kept = {name: text for name, text in own_options(options).items() if name not in SECRETS}
    first, *others = struct.fields
    metadata = {**(first.metadata or {}), _REMEMBERED: json.dumps(kept, sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def remembered(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a read: those of its own, and before them those of the table that it is of."""
    kept = next((f.metadata[_REMEMBERED] for f in schema.fields if _REMEMBERED in (f.metadata or {})), "{}")
    return {**json.loads(kept), **own_options(options)}
