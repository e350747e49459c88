"""Surroundings of systems whose only clock is their own loop's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import kshare.fast.coarse_clock as coarse_clock
from kshare.surroundings import Surroundings, surroundings


class _SteadyRandom(Random):
    """Pauses have always the same length."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class _Steady(Surroundings):
    @staticmethod
    def _nothing() -> float:
        return 0.0

    wall_time = monotonic = suspended_s = _nothing

    def random(self) -> Random:
        return _SteadyRandom(0)


@contextmanager
def steady() -> Iterator[None]:
    """Without any clock or randomness but the system's own."""
    token = surroundings.set(_Steady())
    logging.disable()
    try:
        with patch.object(coarse_clock, "coarse_ms", lambda: 0):
            yield
    finally:
        logging.disable(logging.NOTSET)
        surroundings.reset(token)
