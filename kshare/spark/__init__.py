"""Share groups as a Spark data source: the driver handles offset ranges, executors read the records into Arrow.

`spark.read` and `spark.readStream` find it by the name of the format. This package has the functions that users call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshare.spark.driver.row_decisions import settle
    from kshare.spark.executor.reader import DataLoss
    from kshare.spark.leases.batch_lease import BatchLease, LeaseLostError, lease
    from kshare.spark.leases.lease_token import LeaseEnded
    from kshare.spark.metrics import publish_metrics

__all__ = ["BatchLease", "DataLoss", "LeaseEnded", "LeaseLostError", "lease", "publish_metrics", "settle"]

_LATE = {
    "DataLoss": "kshare.spark.executor.reader",
    "BatchLease": "kshare.spark.leases.batch_lease",
    "LeaseEnded": "kshare.spark.leases.lease_token",
    "LeaseLostError": "kshare.spark.leases.batch_lease",
    "lease": "kshare.spark.leases.batch_lease",
    "publish_metrics": "kshare.spark.metrics",
    "settle": "kshare.spark.driver.row_decisions",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """Includes the names that haven't been loaded yet."""
    return sorted({*globals(), *__all__})
