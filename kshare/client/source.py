"""What loops over a consumer, `kshare.sync` and the worker need of a consumer, and users don't."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from kshare.client.record import ShareBatch, ShareRecord
from kshare.client.streams import Inbox


class ConsumerSource(NamedTuple):
    """What loops over a consumer need of it, and users don't: see `streams.BatchSource`."""

    next_batch: Callable[[], Coroutine[Any, Any, ShareBatch]]
    take_urgent: Callable[[int], Coroutine[Any, Any, ShareBatch | None]]
    """A batch that waits and was delivered more often than this, if there is one. Waits for its deserialization."""
    open_batch: Callable[[], Coroutine[Any, Any, None]]
    slice_size: Callable[[], int]
    check_leases: Callable[[], None]
    """Renew and release what has to be, and count as lost what has expired. While a response is awaited, nobody else
    does."""
    most_delivered: Callable[[], int]
    """In any thread; see `Holdings`."""
    on_lock_lost: Callable[[ShareBatch, list[tuple[int, int]]], None]
    inbox: Inbox
    undecided: Callable[[], int]
    """The number of records that are held, and not settled."""
    unheard_s: Callable[[], float]
    """Seconds since a broker last responded to a heartbeat, or to another short request."""
    release_unseen: Callable[[ShareRecord], bool]
    """Release a record that was handed out but that nobody has worked on. Its partition is paused, for longer each
    time: see `UnseenReleases`. Returns False if it was decided before, or if its lock was lost."""
    set_delivery_limit: Callable[[int], None]
    """Tell it the group's delivery count limit, if that is known. Whoever does looks after last deliveries itself."""
    restart_sessions: Callable[[], Coroutine[Any, Any, None]]
    """Give all records that aren't settled back to the brokers: see `GroupMember`."""
