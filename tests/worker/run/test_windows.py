"""Windows that are full because of other members: whoever holds the record that pins one has to see it."""

from __future__ import annotations

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Retry, RetryTopics, Worker
from kshare.worker.run.windows import GroupWindow, Reach
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio

WINDOW = 100
COUNT = 500
WHERE = ("orders", 0)


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setattr("kshare.worker.run.windows.LOOK_AT_WINDOWS_S", 0.2)
    from_the_start(kshare_broker)
    kshare_broker.set_group_config("g", {"share.partition.max.record.locks": str(WINDOW)})
    kshare_broker.create_topic("orders")
    return kshare_broker


def fast_worker(broker: Broker) -> Worker:
    worker = Worker(broker.bootstrap, group="g")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    return worker


@pytest.mark.lengthy
async def test_a_held_record_makes_way_when_other_members_have_filled_the_window(broker: Broker) -> None:
    """Two members: one holds the first record and is busy, the other one settles what follows."""
    holder = Worker(
        broker.bootstrap,
        group="g",
        concurrency=1,
        retry=Retry(attempts=2, delay=600),
        retry_topics=RetryTopics(tiers=(600.0,)),
        hold_up_to=3600,
        breaker=None,
    )
    is_over = anyio.Event()

    @holder.handler("orders")
    async def hold(value: bytes) -> None:
        if value == b"0":
            raise ValueError
        await is_over.wait()

    broker.produce("orders", [b"0", b"1"])
    async with running(holder):
        [first] = holder.runners
        await until(lambda: first.counts.held == 1 and first.running == 1)
        others = fast_worker(broker)
        broker.produce("orders", [b"%d" % number for number in range(2, COUNT)])
        async with running(others):
            await until(lambda: first.counts.moved == 1)
            is_over.set()
            await until(lambda: first.counts.done + others.runners[0].counts.done == COUNT - 1)


@pytest.mark.lengthy
async def test_a_long_run_is_moved_when_other_members_have_filled_the_window(broker: Broker) -> None:
    holder = Worker(
        broker.bootstrap,
        group="g",
        concurrency=1,
        retry_topics=RetryTopics(tiers=(600.0,)),
        move_runs=True,
    )
    is_over = anyio.Event()

    @holder.handler("orders")
    async def work(value: bytes) -> None:
        await is_over.wait()

    broker.produce("orders", [b"0"])
    async with running(holder):
        [first] = holder.runners
        await until(lambda: first.running == 1)
        others = [fast_worker(broker) for _ in range(2)]
        broker.produce("orders", [b"%d" % number for number in range(1, COUNT)])
        async with running(others[0]), running(others[1]):
            await until(lambda: first.counts.moved == 1)
            is_over.set()
            runners = [worker.runners[0] for worker in (holder, *others)]
            await until(lambda: sum(runner.counts.done for runner in runners) == COUNT)


def reach(*looks: tuple[GroupWindow, int, bool]) -> list[int]:
    known = Reach()
    found: list[int] = []
    for window, newest, is_idle in looks:
        acquired = {WHERE: newest}
        known_now = known.look({WHERE: window}, limit=WINDOW, newest=acquired.__getitem__, is_idle=is_idle)
        found.append(known_now[WHERE])
    return found


def test_a_window_reaches_as_far_as_its_settled_records() -> None:
    assert reach((GroupWindow(10, 0, 5000), 10, True), (GroupWindow(10, 60, 5000), 10, True)) == [9, 69]


def test_a_window_in_which_nothing_moves_is_full_if_a_member_wants_records() -> None:
    still, busy = GroupWindow(10, 20, 110), (GroupWindow(10, 20, 110), 15, False)
    assert reach((still, 15, True), (GroupWindow(10, 20, 200), 15, True)) == [29, 109]
    assert reach((still, 15, True), busy, (still, 15, True)) == [29, 29, 29]
    assert reach((still, 15, True), (still, 16, True)) == [29, 29]
    assert reach((still, 15, True), (GroupWindow(10, 21, 110), 15, True)) == [29, 30]
    short = GroupWindow(10, 20, 109)  # it ends within the window: there is nothing more to acquire
    assert reach((short, 15, True), (short, 15, True)) == [29, 29]
