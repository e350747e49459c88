"""Pages of named bytes: every byte is on one, with its name, and its fields are in the tree."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.protocol.compression import Compression
from kshare.web.byte_pages import MOST_FIELDS, PAGE_BYTES, ROW_BYTES, BytePage, FieldLine, byte_page
from kshare.wire.named_bytes import NamedBytes
from kshare.wire.named_input import name_input
from tests.cli import frames

GIVEN = [frames.fetch_request(), frames.fetch_response(), frames.batch(compression=Compression.GZIP)]


def named(data: bytes) -> NamedBytes:
    return name_input(data).parts[0].named


def pages(data: bytes) -> list[BytePage]:
    whole = named(data)
    count = byte_page(whole, None).page.count
    return [byte_page(whole, str(number + 1)) for number in range(count)]


def lines(fields: list[FieldLine]) -> Iterator[FieldLine]:
    for field in fields:
        yield field
        yield from lines(field.parts)


@pytest.mark.lengthy
@settings(max_examples=40)
@given(st.binary(min_size=1, max_size=3 * PAGE_BYTES) | st.sampled_from(GIVEN))
def test_the_pages_contain_every_byte_once(data: bytes) -> None:
    whole = named(data)
    text = "".join(
        run.text
        for page in pages(data)
        for section in page.sections
        for row in section.rows
        for run in row.runs
    )
    assert bytes.fromhex(text) == b"".join(buffer.data for buffer in whole.buffers)


def test_bytes_have_the_names_of_their_fields() -> None:
    (page,) = pages(frames.fetch_response())
    (section,) = page.sections
    assert (section.first, section.last, section.size) == (0, 190, 191)
    runs = [run for row in section.rows for run in row.runs]
    shown = {line.span.id for line in lines(section.fields)}
    assert [run.title for run in runs if run.field not in shown] == ["190 tags.count count 0"]
    (throttle,) = [run for run in runs if "throttleTimeMs" in run.title]
    assert (throttle.title, throttle.text, throttle.style) == (
        "9-12 throttleTimeMs int32 0",
        "00 00 00 00",
        "number",
    )
    assert all(
        before.is_odd != after.is_odd for before, after in pairwise(runs) if before.title != after.title
    )
    assert section.rows[-1].gap == "   "
    assert len(section.rows[0].text) == ROW_BYTES


@pytest.mark.lengthy
def test_the_tree_is_nested_as_the_fields_are() -> None:
    (page,) = pages(frames.fetch_response())
    roots = page.sections[0].fields
    responses = next(root for root in roots if root.span.path == "responses")
    assert responses.range == "20-188"
    assert responses.parts[0].parts[1].parts[0].span.path == "responses[0].partitions[0]"
    assert [line.span.id for line in lines(roots)] == sorted(line.span.id for line in lines(roots))


def test_decompressed_bytes_follow_in_a_section_of_their_own() -> None:
    (page,) = pages(frames.batch(compression=Compression.GZIP))
    given, unpacked = page.sections
    assert given.packed_in is None
    assert unpacked.packed_in is not None
    assert any('"order 1"' in line.span.value for line in lines(unpacked.fields))


@pytest.mark.lengthy
def test_a_page_has_the_fields_around_its_bytes() -> None:
    data = frames.state_key() + bytes(3 * PAGE_BYTES)
    for page in pages(data):
        for section in page.sections:
            for line in lines(section.fields):
                assert line.span.offset <= section.last
                assert line.span.end >= section.first


@pytest.mark.lengthy
@pytest.mark.parametrize("number", [None, "", "0", "-1", "x", "99999", "1" * 50])
def test_other_numbers_lead_to_a_page(number: str | None) -> None:
    assert byte_page(named(bytes(3000)), number).page.number in (1, 3)


@pytest.mark.lengthy
def test_a_page_is_bounded_if_fields_have_no_bytes() -> None:
    whole = named(frames.fetch_request())
    (last,) = whole.spans[-1:]
    field = next(span for span in whole.spans if span.depth == 0)
    whole.spans.extend([field] * (2 * MOST_FIELDS))
    page = byte_page(whole, None)
    assert page.sections[0].is_cut
    assert len(list(lines(page.sections[0].fields))) == MOST_FIELDS
    assert last.id < MOST_FIELDS
