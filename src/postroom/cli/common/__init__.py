"""What commands share: options, the connection to a broker, tables, progress, errors in one line.

May import no command.
"""
