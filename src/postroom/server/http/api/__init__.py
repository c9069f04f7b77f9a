"""The API: everything that the management node can do, over HTTP with JSON, under ``/api/v1``.

- `settings`: what can be set of each kind of thing, as types, from the tables that the broker has anyway
- `answers`, `arguments`: the types of answers and of requests; `messages`: messages in JSON and in AMQP
- `operation`: what an operation of the API is; `resources` and `message_operations`: the table of all
- `problems`: refusals (RFC 9457); `openapi`: the description of all this; `routes`: from a request to its
  operation and back; `events`: figures as they change; `health`: probes
"""
