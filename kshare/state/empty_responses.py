"""A brake on fetches that brokers respond at once, without records.

A broker without records should wait for some before it responds (`max_wait_ms`). If it doesn't, asking again at once
would mean thousands of requests a second:

    response to a fetch                             | the next fetch
    ----------------------------------------------+------------------------------------------------------------------
    with records                                  | at once
    without, after at least half of the wait      | at once
    without, earlier, up to `FREE` times in a row | at once: sessions that open, and leaders that move, cause some
    without, earlier, more often                  | after a pause that doubles each time, up to `LONGEST_S`
    without, to one that acknowledged             | as before: it tells nothing

Acknowledgements don't wait for it.

Such a broker may never have records again. That is a defect of Kafka 4.2 to 4.4: if records are deleted up to an offset
within a producer batch, a fetch in record-limit mode may acquire records below that offset, and from then on the broker
reads for this group at an offset that its log no longer has. It forgets this, and reads the group's stored
state, when the group's last session with it has ended and the connection of that session is closed. So, after `REOPEN`
early responses in a row, the session should be opened again, if nothing is held: at most every `REOPEN_S`, and less
often if that doesn't help.

Decides when to fetch, and when to open the session again; times are passed in.
"""

from __future__ import annotations

import math

FREE = 2
FIRST_S = 0.01
LONGEST_S = 1.0
REMARKABLE = 8
"""After this many in a row, the broker is worth a warning: something is wrong with it, or with a partition."""
REOPEN = 12
"""After this many in a row, which take about three seconds, the session should be opened again."""
REOPEN_S, LONGEST_REOPEN_S = 10.0, 600.0
"""The pause after the session was opened again doubles each time, up to the longest."""


class EmptyResponses:
    """Those of one broker."""

    def __init__(self) -> None:
        self.until = -math.inf
        """When the next fetch may be sent."""
        self._in_a_row = 0
        self._reopen_at = -math.inf
        self._reopen_pause_s = REOPEN_S

    @property
    def are_remarkable(self) -> bool:
        return self._in_a_row >= REMARKABLE

    def should_reopen(self, now: float) -> bool:
        """Whether the session should be closed with its connection, and opened again."""
        return self._in_a_row >= REOPEN and now >= self._reopen_at

    def on_reopening(self, now: float) -> None:
        """The session is being closed. The next fetch comes after the broker has noticed that the connection ended."""
        self.until = now + LONGEST_S
        self._reopen_at = now + self._reopen_pause_s
        self._reopen_pause_s = min(LONGEST_REOPEN_S, 2 * self._reopen_pause_s)

    def on_records(self) -> None:
        self._in_a_row = 0
        self.until = -math.inf

    def on_empty(self, took_s: float, max_wait_s: float, now: float) -> None:
        """A fetch got a response without records."""
        if took_s >= max_wait_s / 2:
            # It waits as it should, so there is nothing wrong with any partition.
            self.on_records()
            self._reopen_pause_s = REOPEN_S
            return
        self._in_a_row += 1
        if self._in_a_row > FREE:
            self.until = now + min(LONGEST_S, FIRST_S * 2 ** min(self._in_a_row - FREE - 1, 20))
