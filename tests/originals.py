"""The defaults of the systems that Postroom follows, for tests of their rules: a message that fails comes
back at once and for ever, one that nobody wants is discarded, and to receive from a queue makes it.

What Postroom's own defaults do is tested in `tests/server/test_queue_defaults.py`.
"""

import tomllib
from collections.abc import Mapping
from typing import Final

from postroom.server.configuration.config import AutoCreateConfig, QueueDefaultsConfig, QueueManagerConfig

ORIGINALS: Final[Mapping[str, object]] = {
    "auto_create": AutoCreateConfig(consumers=True),
    "queue_defaults": QueueDefaultsConfig(
        redelivery_limit=-1,
        redelivery_delay_ms=-1,
        redelivery_delay_multiplier_percent=100,
        max_redelivery_delay_ms=-1,
        dead_letter_queue="",
    ),
    "queue_manager": QueueManagerConfig(dead_letter_queue=""),
}
"""Arguments of `Config`."""

ORIGINALS_TOML: Final = """
[auto_create]
consumers = true

[queue_defaults]
redelivery_limit = -1
redelivery_delay_ms = -1
redelivery_delay_multiplier_percent = 100
max_redelivery_delay_ms = -1
dead_letter_queue = ""

[queue_manager]
dead_letter_queue = ""
"""
"""The same in a configuration file."""

ORIGINALS_TREE: Final[Mapping[str, object]] = tomllib.loads(ORIGINALS_TOML)
"""The same as that file says it, for `postroom.testing.Broker`."""
