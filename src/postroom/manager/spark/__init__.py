"""Spark as a holder: subscriptions that queries consume by, and sinks that jobs write by."""
