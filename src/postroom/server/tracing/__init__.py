"""Traces: the lives of sampled messages as spans of OpenTelemetry, for a collector.

The turns of the broker do one thing for it: they note the context of a sampled message as it arrives
(`manager.kernel.trace_contexts`). Everything else is read from the ledger by a thread that follows it.

- `spans`: what a span is here, and its attributes; `lives`: the records of the ledger as spans
- `state_file`: what is known of messages that wait, over a restart
- `follower`: the thread that follows; `span_queue`: spans on their way to the collector
- `otlp_exporter`: spans as OTLP, whose messages the extra ``otel`` brings
- `tracer`: all of it for one broker
"""
