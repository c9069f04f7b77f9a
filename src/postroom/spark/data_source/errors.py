"""What a data source refuses before any task starts."""

from postroom.ledger.errors import LedgerError


class SourceOptionError(LedgerError, ValueError):
    """An option of the source is missing or has no meaning."""
