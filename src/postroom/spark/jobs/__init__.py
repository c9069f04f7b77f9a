"""Jobs that act on queues: triage of dead letters by rules, removal of duplicates, backfill from a table.

A job looks at a queue through its ledger and writes a *plan* (`plan`): which messages, and what is to be done
with each. Carrying it out (`execution`) needs no Spark. Looking changes nothing; a plan names each message by
serial, place and deliveries, so that one that has changed since is left alone.

May import `consume`, `sink` and what is below them; not `report`.
"""
