"""The queue manager: queues, those who put and take, and every rule between them.

Pure: no loop, socket, file, thread, clock or randomness. Time is an argument, effects are returned
(`effects.Effects`), events go to the ledger's block builder. It knows nothing of AMQP frames or files.

Public: `manager.QueueManager`; `options.ManagerOptions`, `QueueDefinition`, `ConsumerOptions`;
`effects.Effects`, `Sink`, `Delivery`, `Fetch`, `PRESETTLED`; `consumer.Producer`, `Consumer`;
`queue.Queue`; `quota.QuotaDefinition`; `entry.Entry`; `transaction.Transaction`; `upload.Upload`;
`statistics.Statistics`; `asking.StoreRequest` and the verbs in `store_verbs`, `store_putting`,
`store_browsing`, answered to an `effects.Asker`; `channel_service.ChannelService` and the ends in `channel`;
`undelivered.Action`, `ReceivedMessage`; `dead_letter_header.DeadLetterHeader`;
`name_service.NameService`; `errors.ManagerError` and its subclasses.
"""
