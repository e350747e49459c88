"""The events of a consumer, for metrics, logs and tests.

`observer=` is a function that takes one event; use `match` to pick the ones you need. There is an event for each
request, lease or batch, but never for each record (except poison). Without an observer, no events are created.
`on_settled=` is a function that takes the outcomes of acknowledgements alone: `Acknowledged`. Both are options of
`kshare.ShareConsumer` and `kshare.sync.ShareConsumer`.

The functions are called in the consumer's event loop (for poison: where records are iterated), so a slow one delays
fetching. One that raises is logged and otherwise ignored. Events never contain keys, values or secrets.
"""

from __future__ import annotations

from kshare.engine.events import (
    Acknowledged,
    AckType,
    Acquired,
    Assigned,
    Damaged,
    Event,
    Fetched,
    Finished,
    GivenBack,
    LeaseLost,
    LeaseRenewed,
    LossReason,
    Observer,
    OnSettled,
    Poisoned,
    Refused,
    Responded,
    SessionEnded,
    Skipped,
)

__all__ = [
    "AckType",
    "Acknowledged",
    "Acquired",
    "Assigned",
    "Damaged",
    "Event",
    "Fetched",
    "Finished",
    "GivenBack",
    "LeaseLost",
    "LeaseRenewed",
    "LossReason",
    "Observer",
    "OnSettled",
    "Poisoned",
    "Refused",
    "Responded",
    "SessionEnded",
    "Skipped",
]
