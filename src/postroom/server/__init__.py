"""The broker: connections, queue manager and ledger tied together, then put on sockets.

The pure half knows no loop, socket or clock: `broker.Broker` (group commit, release of effects), `binding`
(one connection), `attach` and the links (`incoming`, `outgoing`, `coordinator`, `management_links`),
`registry` (names over connections), `management`. The asyncio half is `service`, `protocol`, `turns`,
`listeners`; `start` goes from a `config.Config` to a running process. May import what is below: manager,
ledger, amqp, model.
"""
