"""Headers of copies: what is written is read again, and headers of others are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.worker.records.headers import (
    DEAD_LETTER,
    RETRY,
    RetryContext,
    dead_letter_headers,
    own_headers,
    read_retry_context,
)

CONTEXT = RetryContext(
    topic="orders",
    partition=3,
    offset=17,
    group="shippers",
    timestamp=1_700_000_000_000,
    attempts=2,
    due_ms=1_700_000_060_000,
    error="ValueError",
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXT.filter(lambda name: not name.startswith((RETRY, DEAD_LETTER)))
FOREIGN = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)))


@pytest.mark.lengthy
@given(
    st.builds(
        RetryContext,
        topic=TEXT,
        partition=st.integers(0, 2**31),
        offset=st.integers(0, 2**63 - 1),
        group=TEXT,
        timestamp=st.integers(-1, 2**63 - 1),
        attempts=st.integers(0, 1000),
        due_ms=st.integers(0, 2**63 - 1),
        error=TEXT,
        run=TEXT,
        is_over=st.booleans(),
    ),
    FOREIGN,
)
def test_context_is_read_again_and_foreign_headers_are_kept(
    context: RetryContext, foreign: list[tuple[str, bytes | None]]
) -> None:
    headers = [*foreign, *context.headers()]
    assert read_retry_context(headers) == context
    assert own_headers(headers) == foreign


def test_headers_of_an_older_copy_are_not_repeated() -> None:
    dead = dead_letter_headers(CONTEXT, 1, "failed", None, "ship")
    assert own_headers([*CONTEXT.headers(), ("trace", b"1"), *dead, ("trace", b"2")]) == [
        ("trace", b"1"),
        ("trace", b"2"),
    ]


def test_values_may_be_views() -> None:
    headers = [(name, memoryview(value or b"")) for name, value in CONTEXT.headers()]
    assert read_retry_context(headers) == CONTEXT
    assert own_headers([("trace", memoryview(b"1"))]) == [("trace", b"1")]


@pytest.mark.parametrize("missing", ["topic", "partition", "offset", "group", "timestamp", "attempts", "due"])
def test_incomplete_or_damaged_context_is_none(missing: str) -> None:
    headers = CONTEXT.headers()
    assert read_retry_context([header for header in headers if header[0] != RETRY + missing]) is None
    assert (
        read_retry_context([(name, None if name == RETRY + missing else value) for name, value in headers])
        is None
    )


@pytest.mark.parametrize("number", [b"", b"x", b"\xff", b"1.5", b"9" * 10_000])
def test_numbers_that_are_none_are_no_context(number: bytes) -> None:
    headers = [(name, number if name == RETRY + "offset" else value) for name, value in CONTEXT.headers()]
    assert read_retry_context(headers) is None


def test_other_headers_are_no_context() -> None:
    assert read_retry_context([("trace", b"1"), ("empty", None)]) is None


def test_dead_letter_has_kafkas_headers_and_ours() -> None:
    found = dict(dead_letter_headers(CONTEXT, 4, "failed", KeyError("secret"), "ship"))
    assert found == {
        DEAD_LETTER + name: value
        for name, value in {
            "topic": b"orders",
            "partition": b"3",
            "offset": b"17",
            "group": b"shippers",
            "delivery.count": b"4",
            "message": b"failed",
            "attempts": b"2",
            "handler": b"ship",
            "exception": b"KeyError",
        }.items()
    }


def test_long_messages_are_cut_off() -> None:
    found = dict(dead_letter_headers(CONTEXT, 4, "x" * 5000, None, "ship"))
    assert len(found[DEAD_LETTER + "message"] or b"") == 1000
    assert DEAD_LETTER + "exception" not in found


def test_messages_that_are_not_text_can_be_written() -> None:
    """Names of files may contain surrogates."""
    found = dict(dead_letter_headers(CONTEXT, 1, "can't open \udcff", None, "ship"))
    assert found[DEAD_LETTER + "message"] == b"can't open ?"


@pytest.mark.parametrize("name", ["partition", "offset", "timestamp", "attempts", "due"])
@pytest.mark.parametrize("text", ["9" * 400, str(2**63), "-2", "x", ""])
def test_damaged_numbers_make_it_an_ordinary_record(name: str, text: str) -> None:
    headers = [
        (key, text.encode() if key == f"__kshare.retry.{name}" else value)
        for key, value in RetryContext(
            topic="t", partition=0, offset=0, group="g", timestamp=0, attempts=0, due_ms=0
        ).headers()
    ]
    assert read_retry_context(headers) is None
