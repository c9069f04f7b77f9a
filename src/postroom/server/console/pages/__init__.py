"""The console's pages. A page is a module here, with its template beside the others."""

from typing import Final

from postroom.server.console.page import Page
from postroom.server.console.pages.accounts import Accounts, Report
from postroom.server.console.pages.acts import Acts
from postroom.server.console.pages.channels import ChannelList, OneChannel
from postroom.server.console.pages.connections import ConnectionList, OneConnection
from postroom.server.console.pages.dead_letters import DeadLetterQueues, DeadLetters
from postroom.server.console.pages.message import OneMessage
from postroom.server.console.pages.messages import FindMessage
from postroom.server.console.pages.overview import Overview
from postroom.server.console.pages.queue import OneQueue
from postroom.server.console.pages.queues import QueueList
from postroom.server.console.pages.topics import OneSubscription, OneTopic, SubscriptionList, TopicList
from postroom.server.console.pages.transactions import (
    OneBranch,
    OneStoreHolder,
    OneTransaction,
    TransactionList,
)
from postroom.server.console.pages.users import OneRole, OneUser, RoleList, UserList

PAGES: Final[tuple[Page, ...]] = (
    Overview(),
    QueueList(),
    OneQueue(),
    DeadLetterQueues(),
    DeadLetters(),
    TopicList(),
    OneTopic(),
    SubscriptionList(),
    OneSubscription(),
    FindMessage(),
    OneMessage(),
    ChannelList(),
    OneChannel(),
    TransactionList(),
    OneBranch(),
    OneTransaction(),
    OneStoreHolder(),
    ConnectionList(),
    OneConnection(),
    UserList(),
    OneUser(),
    RoleList(),
    OneRole(),
    Acts(),
    Accounts(),
    Report(),
)
"""All of them; the first whose path a request has answers it."""
