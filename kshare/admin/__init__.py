"""Administration of share groups: lists and describes them, and changes their offsets and configuration.

    async with AdminClient("localhost:9092") as admin:
        for offset in await admin.share_group_offsets("orders"):
            print(offset.topic, offset.partition, offset.start_offset, offset.lag)

The client is loaded when it is first used. `kshare.admin.results` has what its methods return.
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
    """Includes the names that haven't been loaded yet."""
    return sorted({*globals(), *__all__})
