"""What users pass becomes a record of its own, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.errors import ConfigError
from kshare.producer.records import NewRecord


def test_bytes_are_not_copied() -> None:
    value, key, content = b"value", b"key", b"content"
    record = NewRecord(value, key, [("name", content)], 5).checked()
    assert record == NewRecord(value, key, [("name", content)], 5)
    assert record.value is value
    assert record.key is key
    assert record.headers[0][1] is content
    assert NewRecord(None).checked() == NewRecord(None)


@pytest.mark.parametrize(
    ("content", "taken"),
    [
        (bytearray(b"abcd"), b"abcd"),
        (memoryview(b"abcd"), b"abcd"),
        (memoryview(b"abcd").cast("I"), b"abcd"),
        (memoryview(b"abcd").cast("B", (2, 2)), b"abcd"),
        (memoryview(b"abcd")[::2], b"ac"),
        (memoryview(bytearray()), b""),
    ],
)
def test_buffers_become_bytes(content: Any, taken: bytes) -> None:
    record = NewRecord(content, content, [("name", content)]).checked()
    assert record == NewRecord(taken, taken, [("name", taken)])
    assert {type(content) for content in (record.value, record.key, record.headers[0][1])} == {bytes}
    assert record.size == NewRecord(taken, taken, [("name", taken)]).size


def test_headers_are_copied() -> None:
    pairs: Any = [["a", b"1"], ("b", None)]
    record = NewRecord(b"", None, pairs).checked()
    pairs[0][1] = b"2"
    pairs.pop()
    assert record.headers == [("a", b"1"), ("b", None)]
    generated: Any = (pair for pair in [("a", b"1")])
    assert NewRecord(b"", None, generated).checked().headers == [("a", b"1")]


@pytest.mark.parametrize(
    "headers", [5, None, "text", b"text", [("a",)], [("a", b"b", b"c")], [(b"a", b"b")], ["ab"]]
)
def test_headers_that_are_not_pairs_are_refused(headers: Any) -> None:
    with pytest.raises(ConfigError, match="headers must be pairs of a name and bytes"):
        NewRecord(b"", None, headers).checked()


def test_a_released_view_is_refused() -> None:
    view: Any = memoryview(b"abc")
    view.release()
    with pytest.raises(ConfigError, match=r"value can't be read: .*released"):
        NewRecord(view).checked()
