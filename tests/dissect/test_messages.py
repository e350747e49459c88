"""Every message in every version, compared with the codecs, which share only the schemas with the dissector."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kshare.dissect import dissect_message, dissection_json
from kshare.dissect.fields import index
from kshare.dissect.table import Field, message, within
from kshare.errors import DecodeError
from kshare.protocol import by_name
from kshare.protocol.message import Message
from tests.dissect.tiling import assert_tiled, found
from tests.helpers.strategies import every_message, messages_of, shapes

settings.register_profile("dissect", suppress_health_check=list(HealthCheck), database=None)
few = settings(settings.get_profile("dissect"), max_examples=5)
fewer = settings(settings.get_profile("dissect"), max_examples=2)

_SMALLEST = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


@pytest.mark.lengthy
@every_message
def test_spans_cover_all_bytes_and_agree_with_the_codecs(name: str) -> None:
    for versions in shapes(name):
        _assert_spans_cover(name, versions[0])


def _assert_spans_cover(name: str, version: int) -> None:
    @few
    @seed(5)
    @given(messages_of(name, version))
    def check(value: Message) -> None:
        data = value.encode(version)
        # The bytes of records fields are arbitrary here; batches have their own tests.
        dissection = dissect_message(name, version, data, records=False)
        assert_tiled(dissection, data)
        assert dissection.problems == []
        assert dissection_json(dissection) == by_name.to_json(value, version)

    check()


@pytest.mark.lengthy
@every_message
def test_truncated_message_shows_what_precedes_the_end(name: str) -> None:
    for versions in shapes(name):
        _assert_truncation_is_shown(name, versions[0])


def _assert_truncation_is_shown(name: str, version: int) -> None:
    @fewer
    @seed(6)
    @given(messages_of(name, version))
    def check(value: Message) -> None:
        data = value.encode(version)
        whole = {(span.path, span.offset, span.length) for span in dissect_message(name, version, data).spans}
        step = max(1, len(data) // 100)
        for length in range(0, len(data), step):
            cut = dissect_message(name, version, data[:length])
            assert_tiled(cut, data[:length])
            assert cut.error is not None
            assert cut.error.path
            for span in cut.spans:
                is_new = "unread" in span.path or "rest" in span.path or "records" in span.path
                assert is_new or (span.path, span.offset, span.length) in whole

    check()


@pytest.mark.lengthy
@every_message
def test_damaged_messages_are_refused_by_dissector_and_codecs_alike(name: str) -> None:
    for versions in shapes(name):
        _assert_damage_is_refused(name, versions[0])


def _assert_damage_is_refused(name: str, version: int) -> None:
    @fewer
    @seed(7)
    @given(messages_of(name, version), st.builds(random.Random, st.integers(0, 1 << 32)))
    def check(value: Message, chance: random.Random) -> None:
        data = bytearray(value.encode(version))
        for _ in range(20 if data else 0):
            mutant = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                mutant[chance.randrange(len(mutant))] = chance.choice(
                    [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
                )
            dissection = dissect_message(name, version, mutant, records=False)
            assert_tiled(dissection, bytes(mutant))
            try:
                decoded = by_name.decode(name, version, bytes(mutant))
            except DecodeError:
                assert dissection.problems
            else:
                assert dissection.problems == []
                # compared as text, because a NaN, which damage sometimes creates, doesn't equal itself
                assert json.dumps(dissection_json(dissection)) == json.dumps(
                    by_name.to_json(decoded, version)
                )

    check()


def test_spans_have_notes_and_descriptions() -> None:
    data = by_name.from_json("ShareFetchResponse", 2, {"errorCode": 121}).encode(2)
    span = found(dissect_message("ShareFetchResponse", 2, data), "errorCode")
    assert (span.value, span.note, span.offset, span.length) == (121, "INVALID_RECORD_STATE", 4, 2)
    assert span.about


def test_array_items_have_at_least_one_byte() -> None:
    """Therefore a count larger than the remaining bytes can be refused at once, and no count causes an endless loop."""
    for name in index.MODULES:
        table = message(name)
        for version in range(table.versions[0], table.versions[1] + 1):
            if not table.is_flexible(version):
                _assert_items_take_bytes(table.fields, version, name)


def _assert_items_take_bytes(fields: tuple[Field, ...], version: int, path: str) -> None:
    for field in fields:
        if field.struct is not None and within(version, field.versions):
            where = f"{path}.{field.name}"
            assert not field.type.startswith("[]") or _smallest(field.struct, version), f"{where} v{version}"
            _assert_items_take_bytes(field.struct, version, where)


def _smallest(fields: tuple[Field, ...], version: int) -> int:
    present = [field for field in fields if within(version, field.versions)]
    return sum(
        _smallest(field.struct, version)
        if field.struct is not None and not field.type.startswith("[]")
        else _SMALLEST.get(field.type, 1)
        for field in present
    )
