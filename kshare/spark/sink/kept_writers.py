"""Producers without transactions, kept between the tasks of a Python worker, like its connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.spark.executor.connections import Connections


@contextmanager
def kept_writer(shared: Connections, settings: WriterSettings) -> Iterator[RecordWriter]:
    """A producer that no other task uses: Spark runs one task at a time in a worker. After an error, it is closed."""
    idle = _idle.get(shared)
    if idle is None:
        idle = _idle[shared] = _IdleWriters()
        shared.on_close(idle.close)
    writer, life = idle.take(settings) or _opened(shared, settings)
    try:
        yield writer
    except BaseException:
        life.close()
        raise
    idle.put(settings, writer, life)


class _IdleWriters:
    def __init__(self) -> None:
        self._writers: dict[WriterSettings, tuple[RecordWriter, ExitStack]] = {}

    def take(self, settings: WriterSettings) -> tuple[RecordWriter, ExitStack] | None:
        return self._writers.pop(settings, None)

    def put(self, settings: WriterSettings, writer: RecordWriter, life: ExitStack) -> None:
        replaced = self._writers.pop(settings, None)
        self._writers[settings] = writer, life
        if replaced is not None:
            replaced[1].close()

    def close(self) -> None:
        while self._writers:
            self._writers.popitem()[1][1].close()


def _opened(shared: Connections, settings: WriterSettings) -> tuple[RecordWriter, ExitStack]:
    life = ExitStack()
    return life.enter_context(shared.entered(RecordWriter(shared.router, settings))), life


_idle: WeakKeyDictionary[Connections, _IdleWriters] = WeakKeyDictionary()
