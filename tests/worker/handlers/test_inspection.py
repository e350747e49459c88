"""Handler functions: what is called how, and which functions are refused."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kshare import ConfigError
from kshare.worker import Delivery, Worker
from kshare.worker.handlers.inspection import inspect_handler
from kshare.worker.handlers.payloads import PayloadError
from tests.worker import postponed

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Order:
    number: int


async def payload_only(order: Order) -> None: ...
async def delivery_only(delivery: Delivery) -> None: ...
async def both(order: Order, delivery: Delivery) -> None: ...
async def reversed_both(delivery: Delivery, order: Order) -> None: ...
async def unannotated(value) -> None: ...  # type: ignore[no-untyped-def]
async def with_default(value: bytes, delivery: Delivery = None, retries: int = 3) -> None: ...  # type: ignore[assignment]
async def positional_only(value: bytes, delivery: Delivery, /) -> None: ...
async def with_rest(value: bytes, *rest: Any, note: str = "", **more: Any) -> None: ...
def plain(value: bytes, delivery: Delivery) -> None: ...
def plain_payload(value: bytes) -> None: ...
async def batch(values: list[str]) -> None: ...
async def batch_both(deliveries: list[Delivery], values: list[bytes]) -> None: ...
async def batch_unannotated(values) -> None: ...  # type: ignore[no-untyped-def]


class Shop:
    async def ship(self, order: Order, delivery: Delivery) -> None: ...

    def pack(self, order: Order) -> None: ...

    @classmethod
    async def of_class(cls, order: Order) -> None: ...

    @staticmethod
    async def static(order: Order) -> None: ...


class AsyncCallable:
    async def __call__(self, order: Order, delivery: Delivery) -> None: ...


class PlainCallable:
    def __call__(self, order: Order) -> None: ...


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any) -> None:
        await function(*args)

    return call


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (payload_only, ("order",)),
        (delivery_only, ("delivery",)),
        (both, ("order", "delivery")),
        (reversed_both, ("delivery", "order")),
        (unannotated, ("order",)),
        (with_default, ("order", "delivery")),
        (positional_only, ("order", "delivery")),
        (with_rest, ("order",)),
        (Shop().ship, ("order", "delivery")),
        (Shop.of_class, ("order",)),
        (Shop.static, ("order",)),
        (AsyncCallable(), ("order", "delivery")),
        (wrapped(both), ("order", "delivery")),
        (functools.partial(both), ("order", "delivery")),
        (functools.partial(functools.partial(Shop.ship, Shop())), ("order", "delivery")),
        (functools.partial(AsyncCallable()), ("order", "delivery")),
        (postponed.ship, ("order", "delivery")),
        (postponed.ship_generic, ("order", "delivery")),
    ],
)
def test_arguments_of_async_functions(function: Callable[..., Any], expected: tuple[str, ...]) -> None:
    call = inspect_handler(function)
    assert call.arguments("order", "delivery") == expected
    assert call.runs_in == "loop"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, ("order", "delivery")),
        (plain_payload, ("order",)),
        (Shop().pack, ("order",)),
        (PlainCallable(), ("order",)),
        (functools.partial(plain), ("order", "delivery")),
        (print, None),
    ],
)
def test_plain_functions_run_in_threads(
    function: Callable[..., Any], expected: tuple[str, ...] | None
) -> None:
    if expected is None:
        with pytest.raises(ConfigError, match="takes nothing"):
            inspect_handler(function)
        return
    call = inspect_handler(function)
    assert call.arguments("order", "delivery") == expected
    assert call.runs_in == "thread"


def test_plain_functions_run_in_processes_if_asked_for() -> None:
    assert inspect_handler(plain_payload, runs_in="process").runs_in == "process"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (batch, (["a"],)),
        (batch_both, ("deliveries", ["a"])),
        (batch_unannotated, (["a"],)),
        (postponed.ship_batch, (["a"], "deliveries")),
    ],
)
def test_arguments_of_batch_handlers(function: Callable[..., Any], expected: tuple[Any, ...]) -> None:
    assert inspect_handler(function, is_batch=True).arguments(["a"], "deliveries") == expected


def test_payloads_are_converted_to_the_annotation() -> None:
    for function in (payload_only, both, Shop().ship, AsyncCallable(), postponed.ship, wrapped(both)):
        decode = inspect_handler(function).decode
        assert decode is not None
        made = decode(b'{"number": 4}')
        assert made.number == 4
        with pytest.raises(PayloadError):
            decode(b"4")


def test_batch_payloads_are_converted_one_by_one() -> None:
    decode = inspect_handler(batch, is_batch=True).decode
    assert decode is not None
    assert decode(b"a") == "a"
    assert inspect_handler(batch_both, is_batch=True).decode is None


async def takes_nothing() -> None: ...
async def takes_two_payloads(one: bytes, two: bytes) -> None: ...
async def takes_two_deliveries(one: Delivery, two: Delivery) -> None: ...
async def takes_three(one: bytes, two: Delivery, three: str) -> None: ...
async def needs_a_name(value: bytes, *, tenant: str) -> None: ...
async def all_have_defaults(value: bytes = b"") -> None: ...
async def takes_a_list_of_deliveries(deliveries: list[Delivery]) -> None: ...
async def unknown_payload(value: complex) -> None: ...
async def hidden_type(price: Decimal) -> None: ...
async def batch_of_one_delivery(values: list[bytes], delivery: Delivery) -> None: ...
async def batch_of_bytes(values: bytes) -> None: ...


def generator(value: bytes) -> Any:
    yield value


async def async_generator(value: bytes) -> Any:
    yield value


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (5, {}, "a handler must be a function, not 5"),
        (Order, {}, "a handler must be a function, not the class Order"),
        (takes_nothing, {}, "handler takes_nothing takes nothing: it must take the payload, a parameter"),
        (all_have_defaults, {}, "handler all_have_defaults takes nothing"),
        (takes_two_payloads, {}, "handler takes_two_payloads takes one, two: it must take the payload"),
        (takes_two_deliveries, {}, "handler takes_two_deliveries takes one, two"),
        (takes_three, {}, "handler takes_three takes one, two, three"),
        (needs_a_name, {}, "handler needs_a_name: tenant can only be passed by name"),
        (functools.partial(with_rest, b"x"), {}, "takes nothing"),
        (takes_a_list_of_deliveries, {}, "annotate deliveries with Delivery here"),
        (unknown_payload, {}, "handler unknown_payload: payloads can't be converted to <class 'complex'>"),
        (hidden_type, {}, "handler hidden_type: the annotation of price can't be evaluated"),
        (generator, {}, "handler generator is a generator: its result would never be read"),
        (async_generator, {}, "handler async_generator is a generator"),
        (both, {"runs_in": "thread"}, "handler both is async, so it can't run in a thread"),
        (both, {"runs_in": "process"}, "handler both is async, so it can't run in a process"),
        (plain, {"runs_in": "loop"}, "handler plain is a plain function, which would block the event loop"),
        (plain, {"runs_in": "process"}, "handler plain runs in another process, which can't settle records"),
        (both, {"runs_in": "proces"}, 'runs_in must be "thread" or "process", not \'proces\''),
        (
            lambda value: None,
            {"runs_in": "process"},
            "can't run in other processes, which import it by its name",
        ),
        (plain, {"runs_in": "greenlet"}, 'runs_in must be "thread" or "process", not \'greenlet\''),
        (
            batch_of_one_delivery,
            {"is_batch": True},
            "handler batch_of_one_delivery: annotate delivery with Deliveries here",
        ),
        (batch_of_bytes, {"is_batch": True}, "batch handler batch_of_bytes: annotate values with list"),
        (dict.get, {}, "dict.get"),
    ],
)
def test_refused_functions(function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        inspect_handler(function, **options)


class Locked:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def ship(self, value: bytes) -> None: ...


def test_functions_that_other_processes_cannot_import_are_refused_when_the_worker_starts() -> None:
    """Each record would fail."""
    worker = Worker("localhost:1", group="g")
    worker.handler("orders", runs_in="process")(Locked().ship)
    with pytest.raises(
        ConfigError, match=r"can't run in other processes, which import it by its name \(.*pickle"
    ):
        worker.run()
