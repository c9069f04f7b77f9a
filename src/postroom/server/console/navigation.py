"""The console's navigation: what is to be found where."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Section:
    """Entries that belong together."""

    title: str
    places: tuple[Place, ...]


OVERVIEW: Final = Place("/", "Overview")
QUEUES: Final = Place("/queues", "Queues")
DEAD_LETTERS: Final = Place("/dead-letters", "Dead letters")
TOPICS: Final = Place("/topics", "Topics")
SUBSCRIPTIONS: Final = Place("/subscriptions", "Subscriptions")
MESSAGES: Final = Place("/messages", "Find a message")
CHANNELS: Final = Place("/channels", "Channels")
TRANSACTIONS: Final = Place("/transactions", "Transactions and locks")
CONNECTIONS: Final = Place("/connections", "Connections")
USERS: Final = Place("/users", "Users")
ROLES: Final = Place("/roles", "Roles")
ACTS: Final = Place("/acts", "Acts")
ACCOUNTS: Final = Place("/accounts", "Accounts")

SECTIONS: Final = (
    Section("", (OVERVIEW,)),
    Section("Messages", (QUEUES, DEAD_LETTERS, TOPICS, SUBSCRIPTIONS, MESSAGES)),
    Section("Traffic", (CHANNELS, TRANSACTIONS, CONNECTIONS)),
    Section("Administration", (USERS, ROLES, ACTS, ACCOUNTS)),
)
