"""The error message for a group that doesn't exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kshare.admin.results import GroupListing
from kshare.cli.terminal.failure import Failure
from kshare.errors import BrokerError, KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import no_group


async def explained(
    error: KshareError, name: str, list_all: Callable[[], Awaitable[Sequence[GroupListing]]]
) -> Failure | KshareError:
    """The error to raise in place of this one. `list_all` lists groups of every type."""
    if not isinstance(error, BrokerError) or error.code != ErrorCode.GROUP_ID_NOT_FOUND:
        return error
    try:
        listed = await list_all()
    except KshareError:
        return error
    if any(one.group == name for one in listed):
        return error  # it isn't a share group
    return Failure(no_group(name, [one.group for one in listed if one.type.lower() == "share"]))
