"""`order`: records with the same key, or of the same lane, are processed one after another (`queue/key_lanes`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Literal

from kshare.callbacks import require_plain
from kshare.client.record import ShareRecord
from kshare.errors import ConfigError
from kshare.worker.functions.user_functions import require_ended

LaneOf = Callable[[ShareRecord], Hashable]
Order = Literal["none", "key"] | LaneOf


def check_order(order: object) -> None:
    """Raises ConfigError."""
    if callable(order):
        require_plain("order", order, "one argument, the record")
    elif order not in ("none", "key"):
        raise ConfigError(f'order must be "none", "key" or a function of the record, not {order!r}')


def lane_function(order: Order) -> LaneOf | None:
    """Returns the lane of a record, or raises what a user's function raises. None if there is no order."""
    if order == "none":
        return None
    return _key_of if order == "key" else partial(_lane_of, order)


def _key_of(record: ShareRecord) -> Hashable:
    return record.key


def _lane_of(order: LaneOf, record: ShareRecord) -> Hashable:
    lane = order(record)
    require_ended(order, lane, "order")
    hash(lane)
    return lane
