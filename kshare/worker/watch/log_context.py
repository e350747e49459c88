"""Log lines with the coordinates of the record that they are about: fields for structured logs.

    coordinates = RecordLogFilter()
    worker.observe(coordinates)
    for handler in logging.getLogger().handlers:
        handler.addFilter(coordinates)

The worker's own lines about a record have these fields without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar

from kshare.worker.records.delivery import Delivery
from kshare.worker.watch.observer import HandlerRun, WorkerObserver

_current: ContextVar[HandlerRun | None] = ContextVar("kshare handler run", default=None)


def log_fields(delivery: Delivery) -> dict[str, object]:
    return {
        "topic": delivery.topic,
        "partition": delivery.partition,
        "offset": delivery.offset,
        "attempt": delivery.attempt,
    }


class RecordLogFilter(logging.Filter, WorkerObserver):
    """Adds the fields group, handler, topic, partition, offset and attempt to all lines that a handler logs.

    Lines of batch handlers get group, handler, and the number of records. Threads that handlers run in are included,
    processes aren't.
    """

    def on_run(self, run: HandlerRun) -> Callable[[], None]:
        token = _current.set(run)
        return lambda: _current.reset(token)

    def filter(self, record: logging.LogRecord) -> bool:
        run = _current.get()
        if run is not None:
            fields: dict[str, object] = {"group": run.group, "handler": run.handler}
            fields |= {"records": len(run.deliveries)} if run.is_batch else log_fields(run.deliveries[0])
            for name, value in fields.items():
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True
