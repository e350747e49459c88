"""Share groups as a Spark source: ranges on the driver, records on the executors, Arrow in between.

`spark.read` and `spark.readStream` know it by the format's name alone; what is called by users is here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshare.spark.leased import LeaseEnded
    from kshare.spark.leasing import Lease, LeaseLost, lease
    from kshare.spark.reader import DataLoss
    from kshare.spark.settling import settle

__all__ = ["DataLoss", "Lease", "LeaseEnded", "LeaseLost", "lease", "settle"]

_LATE = {
    "DataLoss": "kshare.spark.reader",
    "Lease": "kshare.spark.leasing",
    "LeaseEnded": "kshare.spark.leased",
    "LeaseLost": "kshare.spark.leasing",
    "lease": "kshare.spark.leasing",
    "settle": "kshare.spark.settling",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """With what hasn't been loaded yet."""
    return sorted({*globals(), *__all__})
