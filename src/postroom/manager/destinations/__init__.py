"""Queues, topics and subscriptions by name: made, redefined and removed, what is paused, and which
subscriptions a published message goes to.
"""
