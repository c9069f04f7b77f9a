"""Sealed files of a ledger elsewhere: as Parquet, or as they are in an object store.

May import `store` and what is below it.
"""
