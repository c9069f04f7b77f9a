"""The broker over HTTP: its ledger for readers on other machines, and its metrics.

A thread and a loop of its own serve it, so that the AMQP loop never waits for a reader. Who may read what is
said by tokens with named rights. The right ``ledger`` gives records, names and ids; bodies
need ``bodies``, too.

- `tokens`: the file of tokens, and rights; `bounds`: how much anyone may ask for
- `shelf`: the ledger's files and the records of its journal; `metrics`: what is counted
- `application`: requests and answers; `http_server`: the thread
"""
