"""What is shown to those who watch a broker: its metrics for Prometheus, and its probes.

- `metrics_routes`: ``/metrics``; `broker_metrics`: the broker's numbers, with `channel_metrics`, `queue_ages`
  (how long the oldest message has waited) and `trace_metrics`
- `health_routes`: ``/health``

May import what all of HTTP shares; not the API, the ledger's routes or each other's business.
"""
