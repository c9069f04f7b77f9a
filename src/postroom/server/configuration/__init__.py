"""What a broker's configuration file may say: typed tables with their defaults, and errors that name the
line.

May import the plain modules of ``postroom.server``.
"""
