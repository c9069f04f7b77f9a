"""What is counted of message channels, for Prometheus."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from postroom.manager.channels.registry import in_doubt
from postroom.server.channels.supervised_channel import Supervised
from postroom.server.connection.broker import Broker

MAX_CHANNELS: Final = 1000


def channel_families(broker: Broker) -> Iterator[Metric]:
    """Of at most `MAX_CHANNELS` channels, the oldest."""
    channels = broker.channels.all()[:MAX_CHANNELS]
    labels = ["channel"]
    states = GaugeMetricFamily("postroom_channel_state", "1: the state it is in", labels=["channel", "state"])
    since = GaugeMetricFamily(
        "postroom_channel_state_since_seconds", "Since when it is in it, seconds since 1970", labels=labels
    )
    messages = CounterMetricFamily(
        "postroom_channel_messages", "Messages that have gone through it since the start", labels=labels
    )
    doubtful = GaugeMetricFamily(
        "postroom_channel_in_doubt_messages",
        "Messages of the oldest batch that is in doubt",
        labels=labels,
    )
    for channel in channels:
        states.add_metric([channel.name, channel.state.name.lower()], 1)
        since.add_metric([channel.name], channel.since_us / 1e6)
        messages.add_metric([channel.name], _messages(channel))
        batch = in_doubt(channel.channel)
        doubtful.add_metric([channel.name], 0 if batch is None else int(batch.count))
    yield from (states, since, messages, doubtful)


def _messages(channel: Supervised) -> int:
    """Of this run and those before it."""
    instance = channel.instance
    link = None if instance is None else instance.link
    return int(channel.before.messages) + (0 if link is None else int(link.status().messages))
