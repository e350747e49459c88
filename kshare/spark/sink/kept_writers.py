"""Producers without transactions, kept between the tasks of a Python worker, like its connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from weakref import WeakKeyDictionary

from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.spark.executor.connections import Connections

_Opened = tuple[RecordWriter, ExitStack]
_idle: WeakKeyDictionary[Connections, dict[WriterSettings, _Opened]] = WeakKeyDictionary()


@contextmanager
def kept_writer(shared: Connections, settings: WriterSettings) -> Iterator[RecordWriter]:
    """A producer that no other task uses: Spark runs one task at a time in a worker. After an error, it is closed."""
    idle = _idle.get(shared)
    if idle is None:
        idle = _idle[shared] = {}
        shared.on_close(partial(_close, idle))
    writer, life = idle.pop(settings) if settings in idle else _opened(shared, settings)
    try:
        yield writer
    except BaseException:
        life.close()
        raise
    replaced = idle.pop(settings, None)
    idle[settings] = writer, life
    if replaced is not None:
        replaced[1].close()


def _opened(shared: Connections, settings: WriterSettings) -> _Opened:
    life = ExitStack()
    return life.enter_context(shared.entered(RecordWriter(shared.router, settings))), life


def _close(idle: dict[WriterSettings, _Opened]) -> None:
    while idle:
        idle.popitem()[1][1].close()
