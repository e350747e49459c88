"""Responses that can't be decoded: the first one is logged, and repeated ones end the consumer with an error.

Each such response to a fetch costs the records in it a delivery, and at the group's limit (5 by default) they are
archived. So repeating the request forever would lose records.

Decides when there were too many. Never reads a clock; times are passed in.
"""

from __future__ import annotations

import logging

from kshare.errors import DecodeError, KshareError

log = logging.getLogger("kshare.client")

ENOUGH = 3
"""This many responses of one broker in a row, within `WINDOW_S`, are an error."""
TOO_MANY = 10
"""This many responses of one broker within `WINDOW_S` are an error, even if others could be decoded."""
WINDOW_S = 30.0


class UnreadableResponses:
    """Counts those of one broker, or of all brokers for requests on shared connections."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._consecutive: list[float] = []
        """Those since the last useful response."""

    def on_useful(self) -> None:
        """A response returned records, or was the response to a heartbeat."""
        self._consecutive.clear()

    def note(self, error: KshareError, broker: str, now: float) -> None:
        """Log the first one, and raise the error if there were too many. Errors of other kinds are ignored."""
        if not isinstance(error, DecodeError) and not isinstance(error.__cause__, DecodeError):
            return
        self._times = [time for time in self._times if now - time < WINDOW_S]
        if not self._times:
            log.warning(
                "%s: %s. The connection is closed and the request repeated; after %d such responses in a row within "
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
            log.error("%s: %d responses within %.0f s can't be decoded: %s", broker, count, WINDOW_S, error)
            try:
                raise error
            finally:
                del error  # see `kshare.errors`
