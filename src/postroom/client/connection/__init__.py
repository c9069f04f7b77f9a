"""The way to a broker: addresses, TLS, sockets, fail-over, and links that outlive the socket they were made
on.

May import `messages`.
"""
