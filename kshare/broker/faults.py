"""Faults on demand: which requests fail, and how, instead of or besides their usual response.

    fault = faults.add(ShareFetchRequest, times=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    faults.add(ProduceRequest, client="loader", after_ms=500, cut_after=20)

Decides which fault a request meets: the first that fits and isn't used up. Carrying it out is the server's part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message, Request

if TYPE_CHECKING:
    from kshare.broker.connection import Call


@dataclass(slots=True, eq=False)
class Fault:
    """What happens to requests that fit, in the order of the fields."""

    api_key: int | None
    """Of any API if None."""
    times: int | None
    """How many requests it is for; None for all."""
    skip: int
    """How many requests that fit go through unharmed before."""
    node: int | None
    client: str | None
    """The client id."""
    when: Callable[[Any], bool] | None
    """Called with the request."""

    before_ms: int
    """How long the request waits before anything is done with it."""
    do: Callable[[], None] | None
    """Something else that happens just then: a leader moves, the clock turns."""
    hang_up: bool
    """The connection ends, and nothing is done with the request."""
    swallow: bool
    """Nothing is done with the request, and no answer comes."""
    error: ErrorCode | None
    """The answer says so, and nothing is done with the request."""
    change: Callable[[Any], None] | None
    """Called with the answer, which it may alter."""
    after_ms: int
    """How long the answer waits when all is done."""
    mute: bool
    """All is done, but no answer comes."""
    cut_after: int | None
    """The connection ends after so many bytes of the answer."""

    hits: int = 0
    """How many requests have met it."""

    def fits(self, request: Message, call: Call) -> bool:
        return (
            self.times != 0
            and self.api_key in (None, call.api_key)
            and self.node in (None, call.node.id)
            and self.client in (None, call.client_id)
            and (self.when is None or self.when(request))
        )

    def stop(self) -> None:
        """No further request meets it."""
        self.times = 0


class Faults:
    """All faults of a cluster, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: list[Fault] = []

    def add(
        self,
        api: type[Request[Any]] | None = None,
        *,
        times: int | None = 1,
        skip: int = 0,
        node: int | None = None,
        client: str | None = None,
        when: Callable[[Any], bool] | None = None,
        before_ms: int = 0,
        do: Callable[[], None] | None = None,
        hang_up: bool = False,
        swallow: bool = False,
        error: ErrorCode | None = None,
        change: Callable[[Any], None] | None = None,
        after_ms: int = 0,
        mute: bool = False,
        cut_after: int | None = None,
    ) -> Fault:
        """See Fault for what these mean. The fault lasts until it is used up or stopped.

        Raises ValueError for an `error` that this API's answers can't say.
        """
        if api is not None and error is not None:
            # Seldom needed, and it loads a dozen messages.
            from kshare.broker.refusing import check_refusable

            check_refusable(api)
        fault = Fault(
            None if api is None else api.API_KEY,
            times,
            skip,
            node,
            client,
            when,
            before_ms,
            do,
            hang_up,
            swallow,
            error,
            change,
            after_ms,
            mute,
            cut_after,
        )
        self._all.append(fault)
        return fault

    def stop(self) -> None:
        """Ends all faults."""
        for fault in self._all:
            fault.stop()
        self._all.clear()

    def take(self, request: Message, call: Call) -> Fault | None:
        """The fault that this request meets, counted."""
        for fault in self._all:
            if fault.fits(request, call):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                    if not fault.times:
                        self._all.remove(fault)
                return fault
        return None


def corrupt_records(answer: Any) -> None:
    """For `change`: flips a bit in the last byte of the first records that the answer to a (share) fetch carries."""
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.records:
                records = bytearray(partition.records)
                records[-1] ^= 1
                partition.records = bytes(records)
                return
