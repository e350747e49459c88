"""A share fetch: looks for records, and waits until there are some.

Decides when a fetch has waited long enough, and how the room for records and bytes is shared by its partitions: one
after the other until there are enough records, each partition with an even part of the bytes.

A share-partition that nobody has fetched before is cold: a broker reads its state in the background. The fetch that
finds some of them cold sees the loaded ones first, then the others as they are loaded, one by one, and is answered as
soon as there is something to answer it with. The next fetch has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshare.broker.connection import Call
from kshare.broker.refusal import Refusal
from kshare.broker.shares.acknowledging import check_topic
from kshare.broker.shares.led_partition import Handout, LedPartition, Look
from kshare.broker.shares.sessions import ShareSession, TopicPartition
from kshare.broker.signals import Signal
from kshare.protocol.error_codes import ErrorCode

Found = dict[TopicPartition, Handout | Refusal]


@dataclass(slots=True, frozen=True)
class Wish:
    """What a request asks for."""

    max_records: int
    batch_size: int
    is_strict: bool
    min_bytes: int
    max_bytes: int
    max_wait_ms: int


class ShareFetching:
    """One fetch."""

    def __init__(self, call: Call, session: ShareSession, wish: Wish) -> None:
        self._call = call
        self._session = session
        self._epoch = session.epoch
        self._wish = wish
        self._found: Found = {}
        self._led: dict[TopicPartition, LedPartition] = {}
        self._loading: set[TopicPartition] = set()
        """Cold ones, which this fetch doesn't see yet."""

    async def run(self) -> Found:
        """What each partition of the session gives; raises Refusal when the session went on without us."""
        if self._wish.max_records <= 0:
            return {}
        try:
            return await self._wait_for_records(self._call.now + self._wish.max_wait_ms)
        finally:
            self._pass_on()

    async def _wait_for_records(self, deadline: int) -> Found:
        while True:
            self._check_session()
            self._open()
            if self._hand_out(is_last=self._call.now >= deadline):
                return self._found
            if self._loading:
                # Takes no time here. A real broker that may not wait for it answers with nothing half of the time.
                self._finish_one_load()
                continue
            if not self._led:
                return self._found
            self._pass_on()
            if not await self._call.wait(self._signals(), deadline):
                break
        if self._call.connection.is_open:
            self._call.broker.counters.fetches_expired[self._session.group] += 1
            self._check_session()
            self._open()
            self._hand_out(is_last=True)
        return self._found

    def _check_session(self) -> None:
        current = self._call.broker.shares.sessions(self._call.node).find(self._session.owner)
        if current is None:
            raise Refusal(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if current is not self._session or current.epoch != self._epoch:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH)

    def _open(self) -> None:
        """Leaders move and topics go while we wait."""
        self._found.clear()
        self._led.clear()
        for topic_partition in self._session.in_turn():
            try:
                if self._wish.max_bytes < 0:
                    raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"at most {self._wish.max_bytes} bytes")
                check_topic(self._call, topic_partition)
                led, is_cold = self._call.broker.shares.led(
                    self._session.group, topic_partition, self._call.node
                )
            except Refusal as refusal:
                self._found[topic_partition] = refusal
                continue
            if is_cold:
                self._loading.add(topic_partition)
            if topic_partition not in self._loading:
                self._led[topic_partition] = led

    def _finish_one_load(self) -> None:
        """As a 4.3.1 does, which begins one partition before the one that it begins to hand out from."""
        *others, last = self._session.in_turn()
        self._loading.remove(next(each for each in (last, *others) if each in self._loading))

    def _hand_out(self, is_last: bool) -> bool:
        """Whether the fetch is done.

        It is too, with nothing, where the log had moved away under a share-partition or all was aborted: as brokers do.
        """
        moved = [led for led in self._led.values() if led.follow_log()]
        part = self._wish.max_bytes // max(len(self._led), 1)
        looked = {
            topic_partition: Look([], False) if moved else led.look(part, self._wish.max_records)
            for topic_partition, led in self._led.items()
        }
        size = sum(batch.size for look in looked.values() for batch in look.batches)
        is_enough = is_last or size >= self._wish.min_bytes or any(look.has_more for look in looked.values())
        left = self._wish.max_records if is_enough else 0
        has_some = False
        for topic_partition, look in looked.items():
            handout = Handout([], [])
            if left > 0 and look.batches:
                handout = self._led[topic_partition].acquire(
                    self._session.member, look.batches, left, self._wish.batch_size, self._wish.is_strict
                )
                left -= sum(each.size for each in handout.acquired)
            has_some |= bool(handout.acquired) or handout.has_skipped
            self._found[topic_partition] = handout
        return has_some or bool(moved)

    def _pass_on(self) -> None:
        """Another fetch may want what this one left, or couldn't use."""
        for led in self._led.values():
            led.pass_on()

    def _signals(self) -> Iterator[Signal]:
        for led in self._led.values():
            yield led.available
