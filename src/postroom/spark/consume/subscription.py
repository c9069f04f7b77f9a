"""The broker's part: a Spark subscription, asked over AMQP.

Every request may be asked again, so that a connection that breaks is only made anew. How long the broker may
be away has a bound.
"""

import time
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import Any, Final

from postroom.client.exceptions import (
    ConnectionLostException,
    InvalidDestinationException,
    JMSTimeoutException,
    ManagementException,
)
from postroom.spark.broker.management import BrokerLink
from postroom.spark.broker.options import Broker
from postroom.spark.consume.errors import (
    BrokerUnreachable,
    CheckpointReplaced,
    ConsumeError,
    SubscriptionEnded,
)
from postroom.spark.ledger_source.positions import Position

NOUN: Final = "postroom.spark-subscription"
CHECKPOINT_REPLACED: Final = "postroom:checkpoint-replaced"
SUBSCRIPTION_ENDED: Final = "postroom:subscription-ended"

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How a subscription stands; everything told is durable."""

    ledger_id: str
    epoch_id: str
    confirmed: int
    """What was assigned up to this position is confirmed."""
    assigned_through: int
    """Position of the last assignment."""
    held: int = 0
    """Messages that are assigned and not confirmed."""
    registered: str = ""
    """The checkpoint that it knows."""
    last_position: int = 0
    """The ledger's last when it was asked."""
    oldest_waiting: int = 0
    """Place of the oldest message that waits and could be assigned; 0: none does."""
    is_filling: bool = False
    """Whether more is being assigned now."""
    is_full: bool = False
    """Whether the window has no room."""


class BrokerSubscription:
    """A Spark subscription of a broker, over a connection that is made when it is needed, and made anew. For
    one thread. Every call raises ``CheckpointReplaced``, ``SubscriptionEnded`` and ``BrokerUnreachable``."""

    def __init__(self, broker: Broker, name: str, timeout_s: float) -> None:
        self._name: Final = name
        self._timeout_s: Final = timeout_s
        self._link: Final = BrokerLink(broker, timeout_s)

    def __enter__(self) -> "BrokerSubscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def plan(self, checkpoint: str, takes_over: bool = False) -> Plan:
        """How it stands; refused for a checkpoint that isn't the registered one, unless that takes over."""
        on_new = "confirmed" if takes_over else "fail"
        return _plan(self._request("PLAN", checkpoint=checkpoint, on_new_checkpoint=on_new))

    def current_plan(self) -> Plan:
        """How it stands, whoever asks."""
        return _plan(self._request("READ"))

    def register(self, checkpoint: str, takes_over: bool) -> None:
        """From now on this is its checkpoint."""
        self._request("REGISTER", checkpoint=checkpoint, replace=takes_over)

    def confirm(self, checkpoint: str, ledger_id: str, position: Position) -> int:
        """Everything assigned up to the position is consumed; returns how many messages that ended."""
        reply = self._request("CONFIRM", checkpoint=checkpoint, ledger_id=ledger_id, **asdict(position))
        return int(reply["ended"])

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        self._link.close()

    def _send_request(self, operation: str, body: dict[str, object]) -> dict[str, Any]:
        try:
            reply = self._link.management().request(operation, kind=NOUN, name=self._name, body=body)
        except ManagementException as error:
            raise self._refused(error) from error
        except InvalidDestinationException as error:
            raise ConsumeError(
                f"the broker has no Spark subscription {self._name}; create it:"
                f" postroom spark-subscription create {self._name} --queue QUEUE"
            ) from error
        return reply.attributes()

    def _refused(self, error: ManagementException) -> Exception:
        info = error.info
        if error.condition == CHECKPOINT_REPLACED:
            return CheckpointReplaced(self._name, str(info.get("registered", "")), _number(info["confirmed"]))
        if error.condition == SUBSCRIPTION_ENDED:
            return SubscriptionEnded(self._name, error.description)
        return ConsumeError(f"subscription {self._name}: {error}")

    def _request(self, operation: str, **body: object) -> dict[str, Any]:
        """Ask until there is an answer, for as long as is allowed."""
        give_up_s, pause_s = time.monotonic() + self._timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return self._send_request(operation, body)
            except (ConnectionLostException, JMSTimeoutException, OSError) as error:
                self.close()
                if time.monotonic() + pause_s >= give_up_s:
                    raise BrokerUnreachable(
                        f"the broker of subscription {self._name} gave no answer for {self._timeout_s:g} s"
                        f" ({error}); brokerTimeoutS says how long it may be away"
                    ) from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _plan(attributes: dict[str, Any]) -> Plan:
    return Plan(**{field.name: attributes[field.name] for field in fields(Plan)})


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
