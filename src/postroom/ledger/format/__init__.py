"""The bytes of a ledger: records, headers, tables, names of files. Pure; ``FORMAT.md`` has the layouts."""
