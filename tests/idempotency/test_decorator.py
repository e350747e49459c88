"""Decorated functions: what is stored, returned and raised, on every store where that matters."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

from kshare.errors import ClaimLost, ConfigError, InProgress, StoreFailed
from kshare.idempotency import ClaimResponse, ClaimState, MemoryStore, idempotent
from kshare.idempotency.guard import store_key
from tests.idempotency.harnesses import Clock, Harness, harness

pytestmark = pytest.mark.anyio


def record(offset: int = 17) -> SimpleNamespace:
    return SimpleNamespace(topic="orders", partition=3, offset=offset, value=b"7")


class Failing(MemoryStore):
    """Fails in one method: before it has done anything, or afterwards, as if the response had been lost."""

    def __init__(self, method: str, *, afterwards: bool = False) -> None:
        super().__init__()
        self.method = method
        self.afterwards = afterwards

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        self._fail_in("claim", False)
        response = await super().claim(key, owner, seconds)
        self._fail_in("claim", True)
        return response

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        self._fail_in("finish", False)
        is_stored = await super().finish(key, owner, result, seconds)
        self._fail_in("finish", True)
        return is_stored

    async def abandon(self, key: str, owner: str) -> None:
        self._fail_in("abandon", False)
        await super().abandon(key, owner)

    def _fail_in(self, method: str, afterwards: bool) -> None:
        if (method, afterwards) == (self.method, self.afterwards):
            self.method = ""
            raise StoreFailed("the disk is full")


class Responding(MemoryStore):
    """A user's own store, with this response to the first claim."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.responses = [response]

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        return self.responses.pop() if self.responses else await super().claim(key, owner, seconds)


@pytest.mark.parametrize(
    "response",
    [
        *(
            ClaimResponse(ClaimState.IN_PROGRESS, expires_in=seconds)
            for seconds in (float("inf"), float("nan"), float("-nan"), 1e300)
        ),
        ClaimResponse(ClaimState.IN_PROGRESS, expires_in=None),  # type: ignore[arg-type]
        None,
        "claimed",
    ],
)
async def test_a_response_of_a_store_that_makes_no_sense_is_an_error(response: Any) -> None:
    @idempotent(Responding(response), wait=60)
    async def charge(record: Any) -> int:
        return 1

    with pytest.raises(StoreFailed, match=r"charge: Responding responded to a claim with .*ClaimResponse"):
        await charge(record())
    assert await charge(record()) == 1


async def test_a_claim_that_has_expired_meanwhile_is_tried_again() -> None:
    gone = ClaimResponse(ClaimState.IN_PROGRESS, expires_in=-0.001)

    @idempotent(Responding(gone), wait=60)
    async def charge(record: Any) -> int:
        return 1

    @idempotent(Responding(gone))
    async def charge_at_once(record: Any) -> int:
        return 1

    assert await charge(record()) == 1
    with pytest.raises(InProgress) as caught:
        await charge_at_once(record())
    assert caught.value.retry_after == 0


@pytest.mark.lengthy
async def test_a_redelivery_returns_the_stored_result(every_store: Harness) -> None:
    effects: list[int] = []

    @idempotent(every_store.store)
    async def charge(record: Any) -> dict[str, int]:
        effects.append(record.offset)
        return {"receipt": len(effects)}

    assert [await charge(record()), await charge(record()), await charge(record(18))] == [
        {"receipt": 1},
        {"receipt": 1},
        {"receipt": 2},
    ]
    assert effects == [17, 18]
    every_store.advance(86_401)
    assert await charge(record()) == {"receipt": 3}


async def test_plain_functions_in_threads(every_store: Harness) -> None:
    effects: list[int] = []

    @idempotent(every_store.store)
    def charge(record: Any) -> int:
        effects.append(record.offset)
        if len(effects) == 1:
            raise ValueError("card declined")
        return len(effects)

    with pytest.raises(ValueError, match="card declined"):
        await anyio.to_thread.run_sync(charge, record())
    assert [await anyio.to_thread.run_sync(charge, record()) for _ in range(2)] == [2, 2]


def test_plain_functions_without_an_event_loop(every_store: Harness) -> None:
    @idempotent(every_store.store, key=lambda order, **_: order["id"])
    def charge(order: dict[str, str], *, amount: int) -> int:
        return amount

    assert [charge({"id": "a"}, amount=5), charge({"id": "a"}, amount=6)] == [5, 5]


async def test_plain_functions_on_the_event_loops_thread_are_refused() -> None:
    @idempotent(MemoryStore())
    def charge(record: Any) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(ConfigError, match=r"the thread of an event loop.*anyio\.to_thread\.run_sync"):
        charge(record())


@pytest.mark.lengthy
async def test_a_failure_isnt_stored(every_store: Harness) -> None:
    attempts = 0

    @idempotent(every_store.store)
    async def charge(record: Any) -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ValueError("card declined")
        return attempts

    with pytest.raises(ValueError, match="card declined"):
        await charge(record())
    assert [await charge(record()), await charge(record())] == [2, 2]


@pytest.mark.lengthy
async def test_a_call_in_progress_excludes_a_second(every_store: Harness) -> None:
    is_running, may_end = anyio.Event(), anyio.Event()

    @idempotent(every_store.store, in_progress_timeout=60)
    async def charge(record: Any) -> str:
        is_running.set()
        await may_end.wait()
        return "done"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(charge, record())
        await is_running.wait()
        with pytest.raises(
            InProgress, match=r"charge: another call with the same key is in progress"
        ) as caught:
            await charge(record())
        assert 0 < caught.value.retry_after <= 60
        may_end.set()
    assert await charge(record()) == "done"


async def test_waiting_for_a_call_in_progress(every_store: Harness) -> None:
    is_running, may_end = anyio.Event(), anyio.Event()
    results: list[int] = []
    effects = 0

    @idempotent(every_store.store, wait=60)
    async def charge(record: Any) -> int:
        nonlocal effects
        effects += 1
        is_running.set()
        await may_end.wait()
        return effects

    async def keep_result() -> None:
        results.append(await charge(record()))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(keep_result)
        await is_running.wait()
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    assert results == [1, 1, 1]


async def test_waiting_ends_at_its_deadline() -> None:
    is_running = anyio.Event()

    @idempotent(MemoryStore(), wait=0.01)
    async def charge(record: Any) -> None:
        is_running.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(charge, record())
        await is_running.wait()
        with pytest.raises(InProgress):
            await charge(record())
        tasks.cancel_scope.cancel()


async def test_a_waiting_call_takes_over_from_a_dead_one() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)

    @idempotent(store, key=str, wait=60)
    async def charge(order: str) -> str:
        return "taken over"

    key = store_key(f"{charge.__module__}.{charge.__qualname__}", "a")
    await store.claim(key, "dead", 0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(charge, "a")
        await anyio.wait_all_tasks_blocked()
        clock.advance(1)
    assert await charge("a") == "taken over"


@pytest.mark.lengthy
async def test_a_call_that_outlives_its_claim_isnt_done(every_store: Harness) -> None:
    results: list[object] = []

    @idempotent(every_store.store, in_progress_timeout=60)
    async def charge(record: Any, is_slow: bool) -> str:
        if is_slow:
            every_store.advance(61)
            results.append(await charge(record, False))
            return "late"
        return "second"

    with pytest.raises(ClaimLost, match=r"longer than in_progress_timeout \(60 s\)"):
        await charge(record(), True)
    assert results == ["second"]
    assert await charge(record(), False) == "second"


@pytest.mark.parametrize("afterwards", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("method", ["claim", "finish"])
async def test_a_failing_store_is_never_taken_for_done(method: str, afterwards: bool) -> None:
    effects = 0

    @idempotent(Failing(method, afterwards=afterwards))
    async def charge(record: Any) -> int:
        nonlocal effects
        effects += 1
        return effects

    with pytest.raises(StoreFailed, match="the disk is full"):
        await charge(record())
    runs_again = method == "finish" and not afterwards
    assert [await charge(record()), await charge(record())] == ([2, 2] if runs_again else [1, 1])


async def test_a_claim_that_cant_be_removed_is_noted() -> None:
    @idempotent(Failing("abandon"), in_progress_timeout=60)
    async def charge(record: Any) -> None:
        raise ValueError("card declined")

    with pytest.raises(ValueError, match="card declined") as caught:
        await charge(record())
    assert "couldn't be removed (StoreFailed: the disk is full). It expires 60 s" in caught.value.__notes__[0]
    with pytest.raises(InProgress):
        await charge(record())


async def test_a_result_that_cant_be_serialized_isnt_done() -> None:
    effects: list[object] = []

    @idempotent(MemoryStore())
    async def charge(record: Any) -> object:
        effects.append(object())
        return effects[-1]

    for _ in range(2):
        with pytest.raises(
            StoreFailed, match=r"charge: its result, of type object, can't be serialized \(TypeError\)"
        ):
            await charge(record())
    assert len(effects) == 2


async def test_serializers_can_be_chosen() -> None:
    @idempotent(MemoryStore(), serialize=bytes.fromhex, deserialize=bytes.hex)
    async def charge(record: Any) -> str:
        return "c0ffee"

    assert [await charge(record()), await charge(record())] == ["c0ffee", "c0ffee"]


async def test_a_stored_result_that_cant_be_read_is_an_error() -> None:
    store = MemoryStore()
    effects: list[int] = []

    def make(deserialize: Callable[[bytes], Any]) -> Callable[..., Any]:
        @idempotent(store, name="charge", deserialize=deserialize)
        async def charge(record: Any) -> int:
            effects.append(1)
            return 7

        return charge

    await make(json.loads)(record())
    with pytest.raises(
        StoreFailed, match=r"charge: the stored result .* can't be read \(ZeroDivisionError\)"
    ):
        await make(lambda data: 1 // 0)(record())
    assert effects == [1]


async def test_functions_have_keys_of_their_own_unless_they_share_a_name() -> None:
    store = MemoryStore()

    def make(result: str, name: str | None) -> Callable[..., Any]:
        @idempotent(store, name=name)
        async def charge(record: Any) -> str:
            return result

        return charge

    @idempotent(store)
    async def ship(record: Any) -> str:
        return "shipped"

    assert await make("charged", None)(record()) == "charged"
    assert await ship(record()) == "shipped"
    assert await make("by name", "charge")(record()) == "by name"
    assert await make("never", "charge")(record()) == "by name"


async def test_methods_and_the_key_functions_arguments() -> None:
    class Shop:
        @idempotent(MemoryStore(), key=lambda shop, order: f"{shop.name}/{order}")
        async def charge(self, order: int) -> str:
            return self.name

        def __init__(self, name: str) -> None:
            self.name = name

    assert [await Shop("a").charge(1), await Shop("b").charge(1)] == ["a", "b"]


async def test_the_function_keeps_its_name_and_signature() -> None:
    @idempotent(MemoryStore())
    async def charge(record: Any) -> None:
        """Charge the customer."""

    assert (charge.__name__, charge.__doc__) == ("charge", "Charge the customer.")


async def test_expired_entries_are_purged_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.idempotency.guard.CLAIMS_PER_PURGE", 2)
    clock = Clock()
    store = MemoryStore(clock=clock)

    @idempotent(store, keep=10)
    async def charge(record: Any) -> None: ...

    await charge(record(1))
    clock.advance(11)
    await charge(record(2))
    assert len(store) == 1


@pytest.mark.parametrize(
    "option", [{"in_progress_timeout": 0}, {"keep": float("inf")}, {"keep": -1}, {"wait": -1}], ids=str
)
def test_times_out_of_range_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(option))}="):

        @idempotent(MemoryStore(), **option)  # type: ignore[arg-type]
        async def charge(record: Any) -> None: ...


def test_functions_whose_calls_cant_be_told_apart_are_refused() -> None:
    with pytest.raises(ConfigError, match="no parameters"):

        @idempotent(MemoryStore())
        def tick() -> None: ...

    with pytest.raises(ConfigError, match="a generator has no result"):

        @idempotent(MemoryStore())
        async def numbers(record: Any) -> Any:
            yield 1


async def test_a_call_without_coordinates_is_refused_before_it_runs() -> None:
    @idempotent(MemoryStore())
    async def charge(value: bytes) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(ConfigError, match=r"charge: no argument has a topic"):
        await charge(b"7")


class Pause:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def test_a_coroutine_that_is_thrown_away_awaits_nothing_and_leaves_its_claim() -> None:
    @idempotent(MemoryStore())
    async def charge(record: Any) -> None:
        await Pause()

    call = charge(record())
    call.send(None)
    call.close()
    with pytest.raises(InProgress):
        await charge(record())


@pytest.mark.lengthy
async def test_more_plain_functions_than_threads(tmp_path: Path) -> None:
    """Stores have threads of their own; otherwise all calls would wait for one."""
    with harness("sqlite", tmp_path) as (store, _):

        @idempotent(store)
        def charge(record: Any) -> int:
            return 1

        async with anyio.create_task_group() as tasks:
            for offset in range(100):
                tasks.start_soon(anyio.to_thread.run_sync, charge, record(offset))


def test_all_mistakes_of_a_function_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:

        @idempotent(MemoryStore(), in_progress_timeout=-1, keep=True, wait=float("nan"))
        def charge(record: SimpleNamespace) -> None: ...

    assert [mistake.split(": ")[1] for mistake in caught.value.mistakes] == [
        "in_progress_timeout=-1",
        "keep=True",
        "wait=nan",
    ]
