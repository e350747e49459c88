"""Finds a group in the last reading.

A group that isn't there may exist: while its coordinator moves, no broker lists it. So it is only said to be missing
once its coordinator has said so.
"""

from __future__ import annotations

import anyio
from starlette.exceptions import HTTPException

from kshare.admin.groups import describe_share_group
from kshare.errors import BrokerError, EncodeError, KshareError
from kshare.monitor.figures import Row
from kshare.monitor.snapshot import GroupReading
from kshare.protocol.error_codes import ErrorCode
from kshare.web.console import Console
from kshare.wording import no_group

_PATIENCE_S = 5.0
"""For the coordinator: a page that can say so little mustn't take long."""


async def find_group(console: Console, name: str) -> tuple[GroupReading, list[Row]]:
    """The group, and the rows of its partitions. Raises HTTPException: 404 if it doesn't exist, 503 if nobody knows."""
    view = console.watcher.view
    if view.snapshot is None or view.figures is None:
        raise HTTPException(503, view.problem or "the first reading of the cluster isn't finished yet")
    for group in view.snapshot.groups:
        if group.group == name:
            return group, view.figures.partitions[name]
    lost = f"group {name!r} isn't in the last reading"
    if view.problem is not None:
        raise HTTPException(503, f"{lost}, and the cluster can't be read now: {view.problem}")
    if not name or await _is_missing(console, name, lost):
        raise HTTPException(404, no_group(name, [group.group for group in view.snapshot.groups]))
    raise HTTPException(503, f"{lost}, but it exists: the next reading will have it. Load this page again")


async def _is_missing(console: Console, name: str, lost: str) -> bool:
    with anyio.move_on_after(_PATIENCE_S):
        try:
            async with console.router() as router:
                await describe_share_group(router, name)
        except EncodeError:  # the user's name is too long
            raise
        except KshareError as error:
            if isinstance(error, BrokerError) and error.code in (
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.INVALID_GROUP_ID,
            ):
                return True
            raise HTTPException(503, f"{lost}, and its coordinator doesn't tell: {error}") from None
        return False
    raise HTTPException(503, f"{lost}, and its coordinator hasn't responded for {_PATIENCE_S:g} s")
