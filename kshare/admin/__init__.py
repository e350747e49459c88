"""Share groups from outside: which there are, where they stand, what is set for them, and changing all of that.

    async with AdminClient("localhost:9092") as admin:
        for offset in await admin.share_group_offsets("orders"):
            print(offset.topic, offset.partition, offset.start_offset, offset.lag)

The client is loaded when it is first named; what it gives is in `kshare.admin.results`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshare.admin.client import AdminClient

__all__ = ["AdminClient"]


def __getattr__(name: str) -> Any:
    if name != "AdminClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kshare.admin.client"), name)


def __dir__() -> list[str]:
    """With what hasn't been loaded yet."""
    return sorted({*globals(), *__all__})
