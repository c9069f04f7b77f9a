"""Operations on messages: verbs of the message store, message management, and jobs that act on many.

May import the plain modules of ``postroom.server.management``.
"""
