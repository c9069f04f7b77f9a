"""Benchmarks: Postroom beside RabbitMQ, Artemis, NATS and a bare append + fdatasync loop, in one run on one
machine.

``make bench`` runs them all; ``python -m bench --help`` says how to choose. Nothing here is part of the
product.
"""
