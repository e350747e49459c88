"""Answers that can't be decoded: the user is told at once, and by an exception when it goes on.

Each such answer to a fetch costs the records in it a delivery, and after the group's limit (5 by default) they are
archived. So it can't go on in silence until nothing is left.

Decides when it has gone on. Never looks at a clock; times are passed in.
"""

from __future__ import annotations

import logging

from kshare.errors import DecodeError, KshareError

log = logging.getLogger("kshare.client")

ENOUGH = 3
"""Answers of one broker within `WINDOW_S`, and none between them that was of use."""
TOO_MANY = 10
"""Answers of one broker within `WINDOW_S`, whatever came between them."""
WINDOW_S = 30.0


class UnreadableAnswers:
    """Of one broker, or of all that are asked over shared connections."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._consecutive: list[float] = []
        """The same, since the last one of use."""

    def on_useful(self) -> None:
        """An answer was read that brought records, or that keeps the member in its group."""
        self._consecutive.clear()

    def note(self, error: KshareError, broker: str, now: float) -> None:
        """Logs the first, and raises the error when it goes on; other errors are none of this."""
        if not isinstance(error, DecodeError) and not isinstance(error.__cause__, DecodeError):
            return
        self._times = [time for time in self._times if now - time < WINDOW_S]
        if not self._times:
            log.warning(
                "%s: %s. The connection is closed and the request repeated; after %d such answers in a row within "
                "%.0f s the consumer fails",
                broker,
                error,
                ENOUGH,
                WINDOW_S,
            )
        self._times.append(now)
        self._consecutive = [*(time for time in self._consecutive if now - time < WINDOW_S), now]
        count = len(self._times)
        if len(self._consecutive) >= ENOUGH or count >= TOO_MANY:
            log.error("%s: %d answers within %.0f s can't be decoded: %s", broker, count, WINDOW_S, error)
            raise error
