"""Counts and logs records that were accepted, and whose acknowledgement failed: they are delivered again.

A record is accepted as soon as its handler returns, and the acknowledgement is sent after that. The broker may refuse
it, because the lock has expired meanwhile, or the connection may break.
"""

from __future__ import annotations

import logging

from kshare.engine.events import Acknowledged
from kshare.worker.host import RunningHandler


def note_refusals(handler: RunningHandler, settled: Acknowledged) -> None:
    """`settled`: the outcome of acknowledgements."""
    if settled.error is None:
        return
    cause = "were processed, but couldn't be acknowledged in time: they may be redelivered"
    where, detail = (settled.topic, settled.partition), str(settled.error)
    for first, last, kind in settled.ranges():
        if kind == "accept":
            count = last - first + 1
            handler.counts.lost += count
            handler.summary.records(logging.WARNING, cause, *where, count, first, last, detail)
