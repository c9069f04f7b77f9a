"""What the management node shows and changes, a module for each type of manageable entity.

May import ``operations``, and the plain modules of ``postroom.server.management``.
"""
