"""How quickly things happen in a simulation: something all the time, or hardly anything for hours.

In a slow one, records come every few seconds or minutes, and faults every few minutes, but some last long. So
connections get idle, locks are renewed over and over, metadata and limits are looked up again, and what waits, waits
for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from unittest import mock

from kshare.broker import log_cleaner
from kshare.broker.log_cleaner import EVERY_MS
from kshare.state import request_planner
from kshare.state.request_planner import IDLE_WAIT_MS

_HOUR_S = 3600.0
_AGAIN_SOON = 0.3
"""The share of faults in slow simulations that follow the one before within seconds."""
_SOON_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Pace:
    slowness: float = 1.0
    """How many times longer programs pause than usual."""
    fault_every_s: float = 0.5
    stretches: tuple[float, ...] = (1.0,)
    """How many times longer than usual a fault may last."""
    idle_limit_s: float | None = None
    """For how long a connection may carry nothing before its broker closes it (connections.max.idle.ms)."""
    fetch_wait_ms: int = IDLE_WAIT_MS
    """How long fetches may wait at the broker."""
    clean_every_ms: int = EVERY_MS
    """How often the brokers look for records that are too old."""
    look_every: float = 1.0
    """How many times longer than usual the judge waits until it looks again."""

    @classmethod
    def slow(cls, seed: int) -> Pace:
        chance = Random(f"{seed} pace")
        return cls(
            slowness=chance.choice([300.0, 1000.0, 3000.0]),
            fault_every_s=chance.choice([300.0, 900.0, 1800.0]),
            stretches=(1.0, 1.0, 10.0, 100.0),
            idle_limit_s=chance.choice([None, 20.0, 60.0, 540.0]),
            fetch_wait_ms=chance.choice([IDLE_WAIT_MS, 2 * IDLE_WAIT_MS, 2 * IDLE_WAIT_MS]),
            clean_every_ms=60_000,
            look_every=20.0,
        )

    @property
    def is_slow(self) -> bool:
        return self.slowness > 1.0

    @property
    def session_settings(self) -> dict[str, str]:
        """Of a group. In slow simulations, they are Kafka's defaults."""
        seconds = (45, 5) if self.is_slow else (4, 1)
        return {
            "share.session.timeout.ms": f"{seconds[0]}000",
            "share.heartbeat.interval.ms": f"{seconds[1]}000",
        }

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Clients and brokers wait as long as this says."""
        with (
            mock.patch.object(request_planner, "IDLE_WAIT_MS", self.fetch_wait_ms),
            mock.patch.object(log_cleaner, "EVERY_MS", self.clean_every_ms),
        ):
            yield

    def until_fault(self, chance: Random) -> float:
        """How long nothing is disturbed."""
        if self.is_slow and chance.random() < _AGAIN_SOON:
            return chance.uniform(0.0, _SOON_S)
        return chance.expovariate(1 / self.fault_every_s)

    def stretch(self, chance: Random) -> float:
        """How many times longer than usual this fault lasts."""
        return chance.choice(self.stretches) if self.is_slow else 1.0


USUAL = Pace()


def slow_hours(seed: int) -> float:
    """How long a slow simulation lasts, in seconds."""
    return _HOUR_S * Random(f"{seed} hours").choice([0.25, 1, 1, 2, 4, 10])
