"""Counts and logs records that were accepted, and whose acknowledgement failed: they are delivered again.

A record is accepted as soon as its handler returns, and the acknowledgement is sent after that. The broker may refuse
it, because the lock has expired meanwhile, or the connection may break.
"""

from __future__ import annotations

import logging

from kshare.engine.events import Acknowledged
from kshare.summary_log import SummaryLog
from kshare.worker.watch.counts import Counts


class Refusals:
    def __init__(self, counts: Counts, summary: SummaryLog) -> None:
        self._counts = counts
        self._summary = summary

    def on_settled(self, settled: Acknowledged) -> None:
        """The outcome of acknowledgements."""
        if settled.error is None:
            return
        cause = "were processed, but couldn't be acknowledged in time: they may be delivered again"
        for first, last, kind in settled.ranges():
            if kind == "accept":
                records = last - first + 1
                self._counts.lost += records
                place = (settled.topic, settled.partition)
                self._summary.records(
                    logging.WARNING, cause, *place, records, first, last, detail=str(settled.error)
                )
