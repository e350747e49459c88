"""Reads the entries of `__share_group_state` from log segments of a broker."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

from kshare.admin.share_states import StateEntry
from kshare.cli.terminal.failure import Failure
from kshare.errors import DecodeError
from kshare.protocol.records import read_batches
from kshare.state.share_records import ShareStates


def file_entries(files: Iterable[Path], states: ShareStates) -> Iterator[StateEntry]:
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
