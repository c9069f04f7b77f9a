"""A ledger as it is at one moment, beside its broker, to be had elsewhere; and how a copy takes its place."""
