"""Runs `kshare produce`: reads records from input, writes them to partitions, and counts those confirmed.

All input that has arrived is sent together: a typed line immediately, a file in large batches. Invalid input ends the
command, after everything before it is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time

import anyio
import anyio.lowlevel

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import topic_exists, visible_topics
from kshare.cli.produce.formats import Codec, InputFormat
from kshare.cli.produce.input_records import Draft, Template
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.standard_error import say
from kshare.cli.terminal.standard_input import standard_input
from kshare.cli.terminal.table import show_json
from kshare.producer.records import NewRecord
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.wording import counted, did_you_mean, span

Source = Callable[[], AsyncIterator[list[Draft]]]
"""Yields records as they arrive. Each list is sent together."""

_CHUNK = 256 * 1024
_MADE_AT_ONCE = 2000


@dataclass
class _Written:
    """What was written to the topic."""

    began: float = 0.0
    """When writing began, by the event loop's clock."""
    records: int = 0
    unconfirmed: int = 0
    """Sent, but not confirmed yet. If we are interrupted, it is unknown whether these were written."""
    partitions: dict[int, list[int]] = field(default_factory=dict)
    """By partition: first offset, last offset, number of records."""

    def add(self, partition: int, first: int, count: int) -> None:
        self.records += count
        row = self.partitions.setdefault(partition, [first, first, 0])
        row[1] = first + count - 1
        row[2] += count


def source(
    files: Sequence[Path], form: InputFormat, template: Template, count: int | None, size: int | None
) -> Source:
    """The source that the options ask for."""
    if count is not None:
        if files:
            raise Misuse("--count generates records: leave the files out")
        return lambda: _made_up(count, size, template)
    if size is not None:
        raise Misuse("--size is for generated records: add --count")
    if form is not InputFormat.LINES and template.separator is not None:
        raise Misuse(f"--key-separator is for lines, not for --input {form}")
    if form is InputFormat.WHOLE:
        return lambda: _whole(files, template)
    read = template.from_json if form is InputFormat.JSON else template.from_line
    return lambda: _lines(files, read)


def produce(
    cluster: Cluster, topic: str, source: Source, codec: Codec, rate: float | None, is_json: bool
) -> None:
    written = _Written()

    async def work(router: Router) -> None:
        written.began = anyio.current_time()
        is_there = await topic_exists(router, topic)
        known = [] if is_there else await visible_topics(router)
        async with RecordWriter(router, WriterSettings.confirming(router.limit, codec.compression)) as writer:
            if is_there:
                await writer.partition_count(topic)  # and errors are told before anything is typed
            async for drafts in source():
                if drafts and not is_there:
                    is_there = True
                    await writer.partition_count(topic)
                    hint = did_you_mean(topic, known, 1)
                    say(f"there was no topic {topic}, so the broker has created it{hint}")
                await _write_drafts(writer, topic, drafts, rate, written)

    try:
        cluster.run_routed(work)
    except BaseException:
        if written.records or written.unconfirmed:
            _report(topic, written, is_json)
        raise
    _report(topic, written, is_json)


async def _write_drafts(
    writer: RecordWriter, topic: str, drafts: list[Draft], rate: float | None, written: _Written
) -> None:
    at = 0
    while at < len(drafts):
        step = len(drafts) if rate is None else max(1, int(rate / 10))
        await _write(writer, topic, drafts[at : at + step], written)
        at += step
        if rate is not None:
            await anyio.sleep_until(written.began + written.records / rate)


async def _write(writer: RecordWriter, topic: str, drafts: Sequence[Draft], written: _Written) -> None:
    now = int(time() * 1000)
    shares: dict[int, list[NewRecord]] = {}
    for draft in drafts:
        partition = draft.partition
        if partition is None:
            partition = await writer.choose(topic, draft.key)
        timestamp = now if draft.timestamp is None else draft.timestamp
        shares.setdefault(partition, []).append(NewRecord(draft.value, draft.key, draft.headers, timestamp))
    for partition, records in shares.items():
        written.unconfirmed = len(records)
        try:
            first = await writer.append(topic, partition, records)
        except Exception:
            written.unconfirmed = 0  # the error says what became of them
            raise
        written.unconfirmed = 0
        written.add(partition, first, len(records))


def _report(topic: str, written: _Written, is_json: bool) -> None:
    screen = Screen()
    rows = sorted(written.partitions.items())
    if is_json:
        names = ("first", "last", "records")
        partitions = [{"partition": number} | dict(zip(names, row, strict=True)) for number, row in rows]
        unconfirmed = {"unconfirmed": written.unconfirmed} if written.unconfirmed else {}
        show_json(
            screen, {"topic": topic, "records": written.records, "partitions": partitions} | unconfirmed
        )
    else:
        where = [f"{topic}[{number}]@{span(first, last)}" for number, (first, last, _) in rows]
        text = f"{counted(written.records, 'record')} written{': ' if where else ''}{' '.join(where)}"
        if written.unconfirmed:
            text += f"; {written.unconfirmed} more sent but not confirmed"
        screen.line(text)
    screen.done()


# --- where records come from


async def _made_up(count: int, size: int | None, template: Template) -> AsyncIterator[list[Draft]]:
    for start in range(0, count, _MADE_AT_ONCE):
        numbers = range(start + 1, min(start + _MADE_AT_ONCE, count) + 1)
        values = (f"record {number}".encode() for number in numbers)
        yield [template.whole(value if size is None else value.ljust(size, b".")[:size]) for value in values]


async def _whole(files: Sequence[Path], template: Template) -> AsyncIterator[list[Draft]]:
    for path in files:
        yield [template.whole(await anyio.Path(path).read_bytes())]
    if not files:
        yield [template.whole(b"".join([chunk async for chunk in _chunks(standard_input().fileno())]))]


async def _lines(files: Sequence[Path], read: Callable[[bytes, int], Draft]) -> AsyncIterator[list[Draft]]:
    for path in files:
        with path.open("rb") as file:
            async for drafts in _lines_of(file.fileno(), read, f"{path}, "):
                yield drafts
    if not files:
        async for drafts in _lines_of(standard_input().fileno(), read, ""):
            yield drafts


async def _lines_of(
    descriptor: int, read: Callable[[bytes, int], Draft], name: str
) -> AsyncIterator[list[Draft]]:
    number, rest = 0, b""
    async for chunk in _chunks(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            lines, rest = [rest], b""
        drafts: list[Draft] = []
        for line in lines:
            number += 1
            try:
                drafts.append(read(line.removesuffix(b"\r"), number))
            except Failure as problem:
                yield drafts
                raise Failure(f"{name}{problem}") from None
        yield drafts


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Yield bytes as they arrive, and b"" at the end. Waits for terminals and pipes without blocking the event loop.

    Everything else, such as a file or /dev/null, is always readable, and can't be waited for.
    """
    mode = os.fstat(descriptor).st_mode
    comes_late = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
    while True:
        if comes_late:
            await anyio.wait_readable(descriptor)
        else:
            await anyio.lowlevel.checkpoint()
        chunk = os.read(descriptor, _CHUNK)
        yield chunk
        if not chunk:
            return
