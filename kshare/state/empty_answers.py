"""A brake on fetches that brokers answer at once, without records.

A broker without records should wait for some before it answers (`max_wait_ms`). If it doesn't, asking again at once
would mean thousands of requests a second:

    answer to a fetch                             | the next fetch
    ----------------------------------------------+------------------------------------------------------------------
    with records                                  | at once
    without, after at least half of the wait      | at once
    without, earlier, up to `FREE` times in a row | at once: sessions that open, and leaders that move, cause some
    without, earlier, more often                  | after a pause that doubles each time, up to `LONGEST_S`
    without, to one that acknowledged             | as before: it tells nothing

Acknowledgements don't wait for it. Decides when to fetch; times are passed in.
"""

from __future__ import annotations

import math

FREE = 2
FIRST_S = 0.01
LONGEST_S = 1.0
REMARKABLE = 8
"""After this many in a row, the broker is worth a warning: something is wrong with it, or with a partition."""


class EmptyAnswers:
    """Those of one broker."""

    def __init__(self) -> None:
        self.until = -math.inf
        """When the next fetch may be sent."""
        self._in_a_row = 0

    @property
    def are_remarkable(self) -> bool:
        return self._in_a_row >= REMARKABLE

    def on_records(self) -> None:
        self._in_a_row = 0
        self.until = -math.inf

    def on_empty(self, took_s: float, max_wait_s: float, now: float) -> None:
        """A fetch was answered without records."""
        if took_s >= max_wait_s / 2:
            self.on_records()
            return
        self._in_a_row += 1
        if self._in_a_row > FREE:
            self.until = now + min(LONGEST_S, FIRST_S * 2 ** min(self._in_a_row - FREE - 1, 20))
