"""The broker over HTTP: its ledger for readers on other machines, its API, metrics and probes.

A thread and a loop of its own serve it, so that the AMQP loop never waits for a reader. Tokens with named
rights and users with sessions say who may do what.

- `http_service`: from the configuration to a thread that serves; `front`: what answers before the broker is
  there; `http_server`: connections, within their bounds
- `composition`: the parts, each a `route_group`: `ledger_routes`, `api`, `monitoring`; the console is a room
  above
- `application`: every request, bounded and counted
- `gateway`: the management node for requests over HTTP; `figures`, `waits`: for streams
- `admission`, `callers`, `tokens`: who presents a token; `requesters`, `sessions`, `sign_in`: which user it
  is
- `ledger_view`, `records`, `ranges`: the ledger's files and records
"""
