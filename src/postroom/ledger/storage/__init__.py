"""Files of a ledger on its disk: journals, sealed events, bodies, the superblock."""
