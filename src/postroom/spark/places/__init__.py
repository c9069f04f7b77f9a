"""Where a ledger is read: the broker's folder or a copy of it, an object store, the broker itself.

`place` says what each offers, `uris` which URI names which, `slices` cuts what is read into tasks. May import
`filesystems`.
"""
