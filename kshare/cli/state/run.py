"""Runs `kshare state`: shows the stored state once, or repeatedly as it changes."""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.admin.share_states import StateEntry
from kshare.cli.cluster.connection import Cluster
from kshare.cli.state import history, view
from kshare.cli.state.history import History
from kshare.cli.state.view import LEGEND, PictureLine
from kshare.cli.terminal.arguments import Topics, is_chosen
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show_json
from kshare.errors import DecodeError
from kshare.monitor.picture import Picture
from kshare.monitor.stored_topic import GroupMembers, Notes, StoredTopic
from kshare.protocol.records import read_batches
from kshare.state.share_records import SharePartitionKey, SharePartitionState, ShareStates

_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class StateOptions:
    """The options of the command line."""

    group: str | None
    topics: Topics | None
    is_detailed: bool
    is_history: bool
    is_live: bool
    is_json: bool

    def takes(self, where: SharePartitionKey, topic: str | None) -> bool:
        return self.group in (None, where.group) and is_chosen(self.topics, topic or "", where.partition)


def show_files(files: Sequence[Path], options: StateOptions) -> None:
    if options.topics is not None:
        raise Failure("log segments contain topic ids but no names: leave --topic out")
    if options.is_live:
        raise Failure("--follow needs a cluster: leave --file out")
    states = ShareStates()
    sheet = _Sheet(options, {})
    for entry in _file_entries(files, states):
        sheet.tell(entry)
    sheet.draw(states.states, {}, {}, Notes())


def _file_entries(files: Iterable[Path], states: ShareStates) -> Iterator[StateEntry]:
    """Read segments, sorted by file name, which is the order in which brokers write them."""
    for path in sorted(files):
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                continue
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            for batch in read_batches(memoryview(data)):
                for record in batch if not batch.is_control else ():
                    entry = StateEntry.read(record, states)
                    if entry is not None:
                        yield entry
        except DecodeError as error:
            raise Failure(f"{path}: {error}; is it a log segment?") from None


def show_cluster(cluster: Cluster, options: StateOptions) -> None:
    async def work(router: Router) -> None:
        topic = StoredTopic(router, options.group)
        await topic.open()
        sheet = _Sheet(options, topic.names)
        with sheet.redrawn():
            while True:
                async for entry in topic.entries():
                    sheet.tell(entry)
                selected = [where for where in topic.states if sheet.takes(where)]
                if not selected and not options.is_live and options.group is not None:
                    raise Failure(
                        f"no state is stored for group {options.group}{' in these topics' * bool(options.topics)}"
                    )
                progress = await topic.progress(selected)
                members = await topic.members(progress)
                notes = await topic.notes(progress) if sheet.has_notes else Notes()
                sheet.draw(topic.states, progress, members, notes)
                if not options.is_live:
                    return
                await anyio.sleep(_PAUSE_S)
                await topic.open_again()

    cluster.run_routed(work)


class _Sheet:
    """The output: pictures of the state, or the history."""

    def __init__(self, options: StateOptions, names: dict[bytes, str]) -> None:
        self._wanted = options
        self._names = names
        self._screen = Screen()
        self._history = History()
        self._drawn: list[Picture] | None = None
        self._notes = Notes()

    @property
    def has_notes(self) -> bool:
        """Whether it shows what isn't about a single share-partition."""
        return not (self._wanted.is_history or self._wanted.is_json)

    def takes(self, where: SharePartitionKey) -> bool:
        return self._wanted.takes(where, self._names.get(where.topic_id))

    def tell(self, entry: StateEntry) -> None:
        """Show an entry, if the history is wanted."""
        where = entry.reported.where
        if not self._wanted.is_history or not self.takes(where):
            return
        topic = self._names.get(where.topic_id)
        if self._wanted.is_json:
            self._line_of_json(history.as_json(entry, topic))
        else:
            for line in self._history.lines(entry, topic):
                self._screen.line(*line)

    def draw(
        self,
        states: dict[SharePartitionKey, SharePartitionState],
        progress: Mapping[SharePartitionKey, PartitionProgress],
        members: Mapping[str, GroupMembers],
        notes: Notes,
    ) -> None:
        """Show what has changed since the last call, or everything if the screen can be redrawn."""
        if not self._wanted.is_history:
            self._draw_pictures([*self._pictures(states, progress, members)], notes)
        self._screen.done()

    def _pictures(
        self,
        states: dict[SharePartitionKey, SharePartitionState],
        progress: Mapping[SharePartitionKey, PartitionProgress],
        members: Mapping[str, GroupMembers],
    ) -> Iterator[Picture]:
        for where in sorted(states):
            if self.takes(where):
                topic, known = self._names.get(where.topic_id), progress.get(where)
                end = known.end_offset if known else None
                yield Picture(where, topic, states[where], end, known, members.get(where.group, ()))

    def _draw_pictures(self, pictures: list[Picture], notes: Notes) -> None:
        before, self._drawn = self._drawn, pictures
        begun = notes.stalls.keys() - self._notes.stalls.keys()
        self._notes = notes
        if pictures == before and not begun and not self._screen.is_redrawn:
            return  # durations grow although nothing changes
        if self._wanted.is_json and not self._wanted.is_live:
            show_json(self._screen, [view.as_json(picture) for picture in pictures])
        elif self._wanted.is_json:
            for picture in pictures:
                if picture not in (before or ()):
                    self._line_of_json(view.as_json(picture))
        else:
            self._draw_lines(pictures, [picture for picture in before or () if picture.where not in begun])

    def _draw_lines(self, pictures: Sequence[Picture], before: Sequence[Picture]) -> None:
        if self._screen.is_redrawn:
            self._screen.redraw(self._lines(pictures))
            return
        for line in self._lines([picture for picture in pictures if picture not in before]):
            self._screen.line(*line)

    def _lines(self, pictures: Sequence[Picture]) -> Iterable[PictureLine]:
        now = time.time()
        for picture in pictures:
            yield from view.lines(
                picture,
                self._screen.width,
                now,
                is_wrapped=not self._screen.is_plain,
                is_detailed=self._wanted.is_detailed,
                stall=self._notes.stalls.get(picture.where),
            )
        yield from LEGEND if pictures else ((("no state is stored", ""),),)
        if self._notes.limits is not None:
            yield from view.note(self._notes.limits, None if self._screen.is_plain else self._screen.width)

    def _line_of_json(self, form: dict[str, Any]) -> None:
        self._screen.text(json.dumps(form) + "\n")

    def redrawn(self) -> AbstractContextManager[None]:
        is_picture = self._wanted.is_live and not (self._wanted.is_history or self._wanted.is_json)
        return self._screen.redrawn() if is_picture else nullcontext()
