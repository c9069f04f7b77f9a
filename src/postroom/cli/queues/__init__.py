"""Commands about queues, topics, subscriptions, quotas and remote queues of a running broker."""
