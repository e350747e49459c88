"""Rejecting or releasing single rows: `kshare.spark.settle(frame, "reject")` within foreachBatch.

The user's code and the query's runner are two processes on one machine. They communicate through a socket in a folder
that only this user can access. Every runner whose query has `settleRows` listens there, and the one with the rows in
its micro-batch gets the decisions. They are applied when the batch is complete, so if a batch fails and is replayed,
the user decides again.

Decides which query the rows belong to. `Custody` decides what happens to them.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import anyio
from anyio.abc import SocketStream

from kshare.errors import ConfigError, KshareError
from kshare.offset_ranges import ranges_of
from kshare.spark.driver.decisions import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = ("topic", "partition", "offset")
_TIMEOUT_S = 30.0
_LARGEST = 256 * 1024 * 1024

RowRanges = dict[str, dict[str, list[list[int]]]]
"""Topic → partition → first and last offset of each range, as in JSON."""
SettleRows = Callable[[Verdict | None, RowRanges], Awaitable[int]]
"""Settles those of the rows that are in flight and returns how many; without a verdict, only counts them."""


def settle(frame: DataFrame, verdict: Verdict, *, group: str | None = None) -> int:
    """Reject or release rows of a micro-batch, inside foreachBatch. All other rows are accepted.

    Returns the number of rows. `frame` must still have the columns topic, partition and offset. `group` is needed only
    if several queries on this machine process the same records.
    """
    if verdict not in get_args(Verdict):
        raise ConfigError(f'the verdict must be "reject" or "release", not {verdict!r}')
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise ConfigError(
            f"rows are identified by topic, partition and offset: keep the column {missing[0]} in the DataFrame"
        )
    pairs = frame.select(*_COLUMNS).distinct().collect()
    rows = row_ranges((row.topic, row.partition, row.offset) for row in pairs)
    if not pairs:
        return 0
    path = _runner_of(rows, group)
    settled = int(_ask(path, {"verdict": verdict, "rows": rows})["rows"]) if path else 0
    if settled < len(pairs):
        raise KshareError(
            f'{len(pairs) - settled} of {len(pairs)} rows can\'t be settled. Does the query have option("settleRows", '
            '"true")? If so, call settle in foreachBatch, with rows of its DataFrame'
        )
    return settled


def row_ranges(offsets: Iterable[tuple[str, int, int]]) -> RowRanges:
    """Combine rows into ranges. `offsets`: (topic, partition, offset) in any order."""
    rows: RowRanges = {}
    for (topic, partition), found in groupby(sorted(offsets), key=lambda row: row[:2]):
        ranges = ranges_of(offset for _, _, offset in found)
        rows.setdefault(topic, {})[str(partition)] = [[first, last] for first, last in ranges]
    return rows


def _runner_of(rows: RowRanges, group: str | None) -> Path | None:
    """The socket of the runner that has these rows in flight."""
    responses = [(path, _ask(path, {"rows": rows})) for path in _runners()]
    found = [
        (path, response["group"])
        for path, response in responses
        if response["rows"] and group in (None, response["group"])
    ]
    if len(found) > 1:
        groups = " and ".join(sorted(name for _, name in found))
        raise ConfigError(
            f'queries of the groups {groups} process the same records: write settle(..., group="{found[0][1]}")'
        )
    return found[0][0] if found else None


def _runners() -> Iterator[Path]:
    """Yield the sockets of running runners. Removes those that killed runners have left."""
    for path in sorted(socket_folder().glob("*.sock")):
        try:
            with _connected(path):
                yield path
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)


def listening() -> list[int]:
    """Process ids of the runners on this machine that accept decisions for single rows."""
    return [int(path.name.partition("-")[0]) for path in _runners()]


def _connected(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(_TIMEOUT_S)
    try:
        line.connect(str(path))
    except BaseException:
        line.close()
        raise
    return line


def _ask(path: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    try:
        with _connected(path) as line:
            line.sendall(json.dumps(question).encode() + b"\n")
            with line.makefile("rb") as responses:
                found: dict[str, Any] = json.loads(responses.readline() or b'{"rows": 0, "group": ""}')
                return found
    except OSError as error:
        raise KshareError(
            f"the query's runner doesn't respond ({error}): no rows were rejected or released"
        ) from None


def socket_folder() -> Path:
    """The folder of the sockets, which only this user can access."""
    folder = Path(tempfile.gettempdir()) / f"kshare-spark-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()  # another user's symbolic link may lead to a folder of ours
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise KshareError(
            f"{folder} must be accessible to you only: rows are settled through it. Remove it, or chmod 700"
        )
    return folder


async def serve_settlements(group: str, response: SettleRows) -> None:
    """Serve requests of `settle` in the runner, until cancelled."""
    path = socket_folder() / f"{os.getpid()}-{id(response):x}.sock"

    async def talk(stream: SocketStream) -> None:
        async with stream:
            try:
                request = json.loads(await _line(stream))
                count = await response(request.get("verdict"), request["rows"])
                await stream.send(json.dumps({"group": group, "rows": count}).encode() + b"\n")
            except (anyio.EndOfStream, anyio.BrokenResourceError, ValueError):
                return  # it only checked whether the runner is running

    try:
        async with await anyio.create_unix_listener(path, mode=0o600) as listener:
            await listener.serve(talk)
    finally:
        path.unlink(missing_ok=True)


async def _line(stream: SocketStream) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n") and len(received) < _LARGEST:
        received += await stream.receive()
    return bytes(received)
