"""The nouns that every room shares, as tables with their essays. Imports nothing of the other rooms.

Public: `codes` (states, events, holders, outcomes: part of the ledger format), `lifecycle` (the one
transition table), `cells` (its words), `tables` (the same, flattened, and the audit's relation), `holders`
(who keeps what at a lost link or a restart), `message.MessageHead`, `packed` (a waiting entry in 40 bytes),
`selector` (the selector language of JMS), `numbers` (the codes as plain ints for compiled code), `xa`
(names, codes and states of XA branches), `channel` (what a message channel is), `mq`
(reasons, feedback and report options of IBM MQ, and `mq.Undelivered`), `entity_types` (what management calls
its things).
"""
