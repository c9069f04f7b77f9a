"""The bytes of a ledger: records, headers, tables, names of files. Touches no file."""
