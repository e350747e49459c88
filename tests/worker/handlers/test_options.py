"""Options of handlers: every check, unknown names, and names that have no meaning in share groups."""

from __future__ import annotations

import functools
from collections.abc import Awaitable
from typing import Any

import pytest

from kshare import ConfigError
from kshare.worker import Delivery, HandlerOptions, RetryTopics, Worker
from kshare.worker.handlers.options import check_names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({name: value}, f"{name} must be a whole number from 1 to 1,000,000, not {value!r}")
            for name in ("concurrency", "max_held", "batch_size")
            for value in (0, -1, 1.5, True, "10", 1_000_001)
        ),
        *(
            ({name: value}, f"{name} must be a positive number of seconds, at most 86,400, not {value!r}")
            for name in ("time_limit", "hold_up_to", "batch_wait")
            for value in (0, -1, float("nan"), True, "10", 86_401, None)
        ),
        *(
            ({"max_pinned": value}, f"max_pinned must be a number from 0.001 to 1, not {value!r}")
            for value in (0, 1.1, "1", True)
        ),
        ({"order": "keys"}, """order must be "none", "key" or a function of the record, not 'keys'"""),
        ({"order": None}, """order must be "none", "key" or a function of the record, not None"""),
        ({"retry": 3}, r"retry must be a Retry, such as Retry\(attempts=5\), not 3"),
        ({"retry": None}, "retry must be a Retry, .*, not None"),
        ({"breaker": True}, "breaker must be a Breaker, .*, not True"),
        ({"dead_letters": True}, "dead_letters must be a topic or an async function, not True"),
        ({"retry_topics": "yes"}, "retry_topics must be True, False or a RetryTopics, .*, not 'yes'"),
        ({"group": 3}, "group must be a text, not 3"),
        ({"only": "x"}, "only must be a function, not 'x'"),
        ({"only": lambda: True}, "only must take one argument, the delivery"),
        ({"order": lambda: 1}, "order must take one argument, the record"),
        ({"dead_letters": lambda: 1}, "dead_letters must take two arguments, the delivery and the reason"),
    ],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)
def test_invalid_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("|", r"\|")):
        HandlerOptions(**options)


def test_values_at_the_limits_are_allowed() -> None:
    HandlerOptions(
        concurrency=1, max_held=1_000_000, time_limit=0.001, hold_up_to=86_400, max_pinned=1, rate_limit=0.01
    )
    HandlerOptions(order=lambda record: record.key, breaker=None, only=bool, dead_letters="dead")


def test_retry_topics() -> None:
    assert HandlerOptions().tiers is None
    assert HandlerOptions(retry_topics=True).tiers == RetryTopics()
    assert HandlerOptions(retry_topics=RetryTopics(tiers=(5,))).tiers == RetryTopics(tiers=(5,))


def test_unknown_names_are_refused_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match="there is no option 'concurency'; did you mean concurrency"):
        check_names(["group", "concurency"])
    with pytest.raises(ConfigError, match="there is no option 'zzz'; the options are batch_size, "):
        check_names(["zzz"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("enable.auto.commit", "no offsets to commit"),
        ("commit_offsets", "no offsets to commit"),
        ("manual_offset_management", "no offsets to commit"),
        ("seek", "kshare groups reset-offsets"),
        ("auto.offset.reset", "share.auto.offset.reset"),
        ("group.instance.id", "no static members"),
        ("static_membership", "no static members"),
        ("on_rebalance", "don't rebalance"),
        ("partition.assignment.strategy", "brokers assign"),
        ("max_poll_interval", "use time_limit"),
        ("max.poll.interval.ms", "use time_limit"),
        ("isolation.level", "share.isolation.level"),
    ],
)
def test_what_has_no_meaning_says_why(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: .*{reason}"):
        check_names([name])
    with pytest.raises(ConfigError, match=f"^{name}: .*{reason}"):
        Worker(**{name: "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["batch_size", "batch_wait"])
def test_options_of_batches_are_refused_for_handlers_of_single_records(name: str) -> None:
    option: dict[str, Any] = {name: 5}
    worker = Worker("code:1", group="orders", **option)  # for its batch handlers
    with pytest.raises(ConfigError, match=f"{name} is for batch handlers: write batch_handler"):
        worker.handler("orders", **option)
    worker.batch_handler("orders", **option)


def test_dead_letters_may_be_an_async_function_in_a_plain_decorator() -> None:
    async def keep(delivery: Delivery, reason: str) -> None: ...

    @functools.wraps(keep)
    def decorated(delivery: Delivery, reason: str) -> Awaitable[None]:
        return keep(delivery, reason)

    assert HandlerOptions(dead_letters=decorated).dead_letters is decorated


def beginnings(error: ConfigError) -> list[str]:
    return [mistake.split(" must")[0].split(";")[0].split(": ")[0] for mistake in error.mistakes]


def test_all_mistakes_of_a_handler_are_told_at_once() -> None:
    worker = Worker("code:1", group="orders")
    wrong: dict[str, Any] = {"concurency": 5, "seek": 1, "max_held": 0, "order": "topic", "batch_size": 0}
    topics: list[Any] = ["or ders", ["returns"]]
    with pytest.raises(ConfigError) as refused:
        worker.handler(*topics, **wrong)
    assert beginnings(refused.value) == [
        "there is no option 'concurency'",
        "seek",
        "batch_size is for batch handlers",
        "max_held",
        "order",
        "topic 'or ders' isn't the name of a topic",
        "a topic",
    ]


def test_all_mistakes_of_a_worker_are_told_at_once() -> None:
    wrong: dict[str, Any] = {
        "drain_timout": 5,
        "session.timeout.ms": 1,
        "max_held": 0,
        "retry_topic": True,
        "move_runs": True,  # that retry_topics is missing is no further mistake
    }
    with pytest.raises(ConfigError) as refused:
        Worker(drain_timeout=-1, http="nowhere", announce="or ders", announce_url="x", **wrong)
    assert beginnings(refused.value) == [
        "there is no option 'drain_timout'",
        "session.timeout.ms",
        "there is no option 'retry_topic'",
        "max_held",
        "drain_timeout",
        "http",
        "announce_url",
        "announce 'or ders' isn't the name of a topic",
    ]


def test_what_hinders_a_run_is_told_at_once() -> None:
    kafkas: dict[str, Any] = {"request.timeout.ms": "x"}
    worker = Worker(announce="workers", **kafkas)

    @worker.handler("orders")
    def ship(value: bytes) -> None: ...

    @worker.handler("returns")
    def store(value: bytes) -> None: ...

    with pytest.raises(ConfigError) as refused:
        worker.run()
    assert beginnings(refused.value) == [
        "announce needs the HTTP endpoint, whose address is announced",
        "request.timeout.ms",
        "bootstrap_servers is missing",
        "handler ship has no group",
        "handler store has no group",
    ]
