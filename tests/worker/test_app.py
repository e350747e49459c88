"""Handlers and workers: what is declared, what is included, and errors where the function is."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kshare import ConfigError, KshareError
from kshare.worker import Deliveries, Delivery, Handlers, Retry, Worker


async def ship(value: bytes) -> None: ...
async def pack(value: bytes) -> None: ...
def plain(value: bytes) -> None: ...
async def around(delivery: Delivery, go_on: Callable[[], Awaitable[None]]) -> None: ...
async def within(delivery: Delivery, go_on: Callable[[], Awaitable[None]]) -> None: ...
async def within_batch(deliveries: Deliveries, go_on: Callable[[], Awaitable[None]]) -> None: ...
async def ship_batch(values: list[bytes]) -> None: ...
def report(delivery: Delivery, error: BaseException) -> None: ...


def test_handlers_have_the_workers_options_and_their_own() -> None:
    worker = Worker(group="g", concurrency=7, retry=Retry(attempts=2))
    worker.handler("a", concurrency=3)(ship)
    worker.batch_handler("b", group="other")(batch_ship)
    first, second = worker.routes()
    assert (first.name, first.topics, first.group, first.is_batch) == ("ship", ("a",), "g", False)
    assert (first.options.concurrency, first.options.retry.attempts) == (3, 2)
    assert (second.group, second.options.concurrency, second.is_batch) == ("other", 7, True)


async def batch_ship(values: list[bytes]) -> None: ...


def test_declared_functions_stay_what_they_are() -> None:
    assert Worker(group="g").handler("a")(ship) is ship


def test_topics_may_be_patterns() -> None:
    worker = Worker(group="g")
    worker.handler("a", re.compile("b-.*"))(ship)
    (route,) = worker.routes()
    assert (route.topics, route.patterns) == (("a",), (re.compile("b-.*"),))


def test_connection_options_are_kept_apart() -> None:
    worker = Worker("localhost:9092", group="g", client_id="me", **{"security.protocol": "SSL"})  # type: ignore[arg-type]
    assert worker.connection == {"client_id": "me", "security.protocol": "SSL"}
    assert worker.defaults == {"group": "g"}


def test_included_handlers_have_their_own_defaults_first() -> None:
    part = Handlers(group="part", concurrency=2)
    part.handler("a")(ship)
    worker = Worker(group="g", concurrency=9, time_limit=5)
    worker.include(part)
    (route,) = worker.routes()
    assert (route.group, route.options.concurrency, route.options.time_limit) == ("part", 2, 5)


def test_middleware_of_the_outer_part_is_outermost() -> None:
    part = Handlers()
    part.handler("a")(ship)
    part.middleware(within)
    part.on_error(report)
    worker = Worker(group="g")
    worker.middleware(around)
    worker.on_error(report)
    worker.include(part)
    worker.handler("b")(pack)
    first, second = worker.routes()
    assert (first.middleware, second.middleware) == ((around, within), (around,))
    assert (first.on_error, second.on_error) == ((report, report), (report,))


def test_batch_handlers_have_middleware_of_their_own() -> None:
    part, worker = Handlers(), Worker(group="g")
    part.batch_handler("a")(ship_batch)
    part.batch_middleware(within_batch)
    worker.middleware(around)
    worker.include(part)
    (route,) = worker.routes()
    assert route.middleware == (within_batch,)


@pytest.mark.parametrize("name", ["middleware", "batch_middleware"])
def test_middleware_takes_two_arguments(name: str) -> None:
    async def passes(one: object) -> None: ...

    with pytest.raises(ConfigError, match=f"^{name} must take two arguments, the deliver.*passes"):
        getattr(Worker(group="g"), name)(passes)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("on_startup", lambda app: None, "on_startup must take no arguments"),
        ("on_shutdown", lambda app: None, "on_shutdown must take no arguments"),
        ("on_error", lambda error: None, "on_error must take two arguments, the delivery and the exception"),
        ("on_error", within_batch, "on_error must be a plain function, not an async one"),
        ("on_startup", None, "on_startup must be a function, not None"),
    ],
)
def test_hooks_that_could_not_be_called_are_refused(name: str, function: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        getattr(Worker(group="g"), name)(function)


class Around:
    def passes(self, subject: object, go_on: Any) -> None: ...

    async def __call__(self, subject: object, go_on: Any) -> None:
        await go_on()


def passes(subject: object, go_on: Any) -> None: ...


async def yields(subject: object, go_on: Any) -> Any:
    yield await go_on()


@functools.wraps(Around.__call__)
def wraps(*arguments: Any) -> Any:
    return Around.__call__(*arguments)


@pytest.mark.parametrize("name", ["middleware", "batch_middleware"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (passes, " .* must be an async function, not a plain one: it awaits"),
        (Around().passes, " .* must be an async function, not a plain one: it awaits"),
        (functools.partial(passes), " .* must be an async function, not a plain one: it awaits"),
        (yields, " must not be a generator, because its body would never run"),
    ],
)
def test_middleware_must_be_async(name: str, function: Any, message: str) -> None:
    worker = Worker(group="g")
    with pytest.raises(ConfigError, match=f"^{name}{message}"):
        getattr(worker, name)(function)
    worker.handler("a")(ship)
    assert worker.routes()[0].middleware == ()


@pytest.mark.parametrize(
    "function",
    [
        Around(),
        functools.partial(Around()),
        functools.partial(wraps, Around()),
        lambda subject, go_on: go_on(),
    ],
)
def test_middleware_may_be_whatever_can_be_awaited(function: Any) -> None:
    worker = Worker(group="g")
    worker.middleware(function)
    worker.handler("a")(ship)
    assert worker.routes()[0].middleware == (function,)


def test_parts_may_contain_parts() -> None:
    inner, outer, worker = Handlers(concurrency=2), Handlers(time_limit=3), Worker(group="g")
    inner.handler("a")(ship)
    outer.include(inner)
    worker.include(outer)
    (route,) = worker.routes()
    assert (route.options.concurrency, route.options.time_limit, route.group) == (2, 3, "g")


def test_handlers_cannot_include_themselves() -> None:
    part, worker = Handlers(), Worker(group="g")
    with pytest.raises(ConfigError, match="handlers can't include themselves"):
        worker.include(worker)
    part.include(worker)
    with pytest.raises(ConfigError, match="handlers can't include themselves"):
        worker.include(part)


def test_what_is_added_to_a_part_later_is_included() -> None:
    part, worker = Handlers(), Worker(group="g")
    worker.include(part)
    part.handler("a")(ship)
    assert [route.name for route in worker.routes()] == ["ship"]


@pytest.mark.parametrize("is_batch", [False, True])
def test_topic_has_one_handler_in_a_group(is_batch: bool) -> None:
    worker = Worker(group="g")
    worker.handler("a", "b")(ship)
    if is_batch:
        worker.batch_handler("b", "c")(batch_ship)
    else:
        worker.handler("b", "c")(pack)
    other = "batch_ship" if is_batch else "pack"
    with pytest.raises(ConfigError, match=f"handlers ship and {other} both process topic b in group g"):
        worker.routes()


def test_topic_may_have_handlers_in_several_groups() -> None:
    worker = Worker(group="g")
    worker.handler("a")(ship)
    worker.handler("a", group="other")(ship)
    assert [route.name for route in worker.routes()] == ["ship", "ship-2"]


def test_handlers_included_twice_are_refused() -> None:
    part, worker = Handlers(), Worker(group="g")
    part.handler("a")(ship)
    worker.include(part)
    worker.include(part)
    with pytest.raises(ConfigError, match="both process topic a"):
        worker.routes()


def test_repeated_topics_of_a_handler_are_one() -> None:
    worker = Worker(group="g")
    worker.handler("a", "a")(ship)
    assert [route.topics for route in worker.routes()] == [("a",)]


def test_handler_needs_a_group() -> None:
    worker = Worker()
    worker.handler("a")(ship)
    with pytest.raises(ConfigError, match="handler ship has no group: write Worker"):
        worker.routes()


def takes_nothing() -> None: ...


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda app: app.handler()(ship), 'a handler needs topics: write handler\\("orders"\\)'),
        (lambda app: app.handler(ship), r'a handler needs topics: write @worker.handler\("orders"\), with'),
        (lambda app: app.handler(""), "a topic must be a name or a compiled pattern, not ''"),
        (lambda app: app.handler(b"a"), "a topic must be a name or a compiled pattern, not b'a'"),
        (lambda app: app.handler(["a", "b"]), r"not \['a', 'b'\]: write handler\(\"a\", \"b\"\)$"),
        (lambda app: app.batch_handler({"b", "a"}), r': write batch_handler\("a", "b"\)$'),
        (lambda app: app.handler([re.compile("a")]), "not .*: give topics one by one$"),
        (lambda app: app.handler("or ders"), "topic 'or ders' isn't the name of a topic: use letters"),
        (lambda app: app.handler("a", ".."), r"topic '\.\.' isn't the name of a topic"),
        (lambda app: app.handler(re.compile(b"a.*")), "a pattern of topics must be of text, not of bytes"),
        (lambda app: app.handler("a")(takes_nothing), "handler takes_nothing takes nothing"),
        (lambda app: app.handler("a", concurrency=0)(ship), "concurrency must be a whole number"),
        (
            lambda app: app.handler("a", concurency=1),
            "there is no option 'concurency'; did you mean concurrency",
        ),
        (lambda app: app.handler("a", seek=1), "seek: a share group has no position"),
        (lambda app: app.handler("a", runs_in="process")(ship), "handler ship is async"),
        (lambda app: app.batch_handler("a")(text_ship), "batch handler text_ship: annotate value with list"),
    ],
)
def test_errors_are_raised_where_the_function_is_declared(
    declare: Callable[[Any], None], message: str
) -> None:
    for app in (Handlers(), Worker(group="g")):
        with pytest.raises(ConfigError, match=message):
            declare(app)
        assert app.resolved() == []


async def text_ship(value: str) -> None: ...


@pytest.mark.parametrize("kind", [Handlers, Worker])
def test_invalid_defaults_are_refused_at_once(kind: type[Handlers]) -> None:
    with pytest.raises(ConfigError, match="concurrency must be a whole number"):
        kind(concurrency=0)


def test_default_for_plain_functions_does_not_concern_async_ones() -> None:
    worker = Worker(group="g", runs_in="process")
    worker.handler("a")(ship)
    worker.handler("b")(plain)
    assert [route.call.runs_in for route in worker.routes()] == ["loop", "process"]


@pytest.mark.parametrize("drain_timeout", [-1, "30", True, None])
def test_invalid_drain_timeouts_are_refused(drain_timeout: Any) -> None:
    with pytest.raises(ConfigError, match="drain_timeout must be a number from 0 to 86,400"):
        Worker(group="g", drain_timeout=drain_timeout)


@pytest.mark.anyio
async def test_worker_without_handlers_does_not_start() -> None:
    with pytest.raises(ConfigError, match="the worker has no handlers"):
        await Worker("localhost:9", group="g").serve()


def test_nothing_can_be_paused_before_the_worker_runs() -> None:
    with pytest.raises(
        KshareError, match="there is no topic or handler ship to pause; the worker isn't running"
    ):
        Worker(group="g").pause("ship", 1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("dead_leters", "there is no option 'dead_leters'; did you mean dead_letters?"),
        ("grup", "there is no option 'grup'; did you mean group?"),
        ("drain_timout", "there is no option 'drain_timout'; did you mean drain_timeout?"),
        ("sasl_mechanisme", "there is no option 'sasl_mechanisme'; did you mean sasl_mechanism?"),
    ],
)
def test_unknown_options_are_refused_where_the_worker_is_declared(option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Worker("localhost:9092", **{option: "x"})  # type: ignore[arg-type]
