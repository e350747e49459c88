"""Typical problems of share groups, reproduced on the embedded broker, for `kshare trace` to show.

Each scenario gets the address of the proxy, and the broker behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import ShareConsumer as ConfluentConsumer

from kshare import sync
from kshare.testing import Broker

GROUP, TOPIC = "shippers", "orders"
LOCKS_S = {
    "healthy": 5.0,
    "stuck": 1.5,
    "redelivery": 5.0,
    "timeouts": 1.0,
    "slow": 4.0,
    "resets": 5.0,
    "pinned": 20.0,
}
"""The lock duration in each scenario: short if the scenario waits for locks to expire, or else long enough for busy
machines."""
_DEADLINE_S = 30.0
_PINNED_S = 5.0
"""How long the linter observes empty fetches."""

Scenario = Callable[[str, Broker], None]


def healthy(address: str, broker: Broker) -> None:
    """Two batches are accepted."""
    with sync.ShareConsumer(address, group=GROUP, topics=[TOPIC], client_id="truck-7") as consumer:
        for number, _ in enumerate(consumer, 1):
            if number == 15:
                broker.produce(TOPIC, [b"more"] * 5)
            if number == 20:
                break


def stuck(address: str, broker: Broker) -> None:
    """A handler never returns, and its client renews the lock repeatedly."""
    with _explicit(address) as consumer:
        next(iter(consumer))
        time.sleep(LOCKS_S["stuck"] * 9)


def pinned(address: str, broker: Broker) -> None:
    """A handler is stuck at one record, while other records are processed until no more are acquired."""
    with _explicit(address) as consumer:
        for _ in range(5):
            broker.produce(TOPIC, [b"order"] * 500)
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                seen += 1
                if record.offset:
                    record.accept()
            if seen >= 2000:
                break
        time.sleep(_PINNED_S)


def redelivery(address: str, broker: Broker) -> None:
    """A handler releases a record that it can't process."""
    with _explicit(address) as consumer:
        for record in consumer:
            if record.offset == 3:
                record.release()
            else:
                record.accept()
            if record.offset == 3 and record.delivery_count == 5:
                break


def timeouts(address: str, broker: Broker) -> None:
    """A handler takes longer than the lock, in a client that doesn't renew it."""
    _work(address, LOCKS_S["timeouts"] * 1.6)


def slow(address: str, broker: Broker) -> None:
    """A handler takes nearly as long as the lock."""
    _work(address, LOCKS_S["slow"] * 0.87)


def resets(address: str, broker: Broker) -> None:
    """Connections break repeatedly."""
    with _explicit(address) as consumer:
        records = iter(consumer)
        for delivery in range(1, 5):
            while next(records).delivery_count < delivery:
                pass
            broker.hang_up("truck-7")


def _explicit(address: str) -> sync.ShareConsumer:
    return sync.ShareConsumer(
        address, group=GROUP, topics=[TOPIC], client_id="truck-7", acknowledgement="explicit"
    )


def _work(address: str, seconds: float) -> None:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "client.id": "truck-7",
            "share.acknowledgement.mode": "explicit",
            "log_level": 2,
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + _DEADLINE_S
    while not (messages := consumer.poll(0.5)):
        assert time.monotonic() < deadline, "no record came"
    time.sleep(seconds)
    for message in messages:
        consumer.acknowledge(message)
    consumer.commit_sync()
    consumer.close()


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario for scenario in (healthy, stuck, pinned, redelivery, timeouts, slow, resets)
}
RULES: dict[str, set[str]] = {
    "healthy": set(),
    "stuck": {"endless-renewals"},
    "pinned": {"pinned-window"},
    "redelivery": {"redelivery-loop"},
    "timeouts": {"after-the-lock"},
    "slow": {"slow-acknowledgements"},
    "resets": {"session-left-open", "session-resets"},
}
"""The linter's findings that each scenario must have. A healthy run must have none."""
