"""Traces: spans from the ledger, their way to a collector, and what real clients' contexts become."""
