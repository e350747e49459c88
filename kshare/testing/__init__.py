"""For tests of code that uses share groups: an embedded broker, in the same process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshare.broker.clock import ManualClock
    from kshare.broker.faults import Fault, Faults, corrupt_records
    from kshare.broker.server_properties import server_properties
    from kshare.testing.broker import Broker
    from kshare.testing.options import BrokerOptions
    from kshare.testing.running_worker import RunningWorker, run_worker

__all__ = [
    "Broker",
    "BrokerOptions",
    "Fault",
    "Faults",
    "ManualClock",
    "RunningWorker",
    "corrupt_records",
    "run_worker",
    "server_properties",
]

_LATE = {
    "Broker": "kshare.testing.broker",
    "BrokerOptions": "kshare.testing.options",
    "Fault": "kshare.broker.faults",
    "Faults": "kshare.broker.faults",
    "ManualClock": "kshare.broker.clock",
    "RunningWorker": "kshare.testing.running_worker",
    "corrupt_records": "kshare.broker.faults",
    "run_worker": "kshare.testing.running_worker",
    "server_properties": "kshare.broker.server_properties",
}


def __getattr__(name: str) -> Any:
    """Import lazily: pytest imports `plugin` in every run, which shouldn't import a broker."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """Includes names that aren't imported yet."""
    return sorted({*globals(), *__all__})
