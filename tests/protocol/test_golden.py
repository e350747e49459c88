"""Our codecs with the golden vectors, which Kafka's own classes wrote: a comparison with Kafka without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kshare.protocol import by_name, messages

_GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def _vectors(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((_GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return vectors


@pytest.mark.lengthy
def test_every_message_in_every_version_has_vectors() -> None:
    assert {path.stem for path in _GOLDEN.glob("*.json")} == set(messages.MODULES)
    for name in messages.MODULES:
        first, last = by_name.message_class(name).VERSIONS
        assert {vector["version"] for vector in _vectors(name)} == set(range(first, last + 1)), name


@pytest.mark.parametrize("name", sorted(messages.MODULES))
def test_bytes_and_json_equal_kafkas(name: str) -> None:
    for vector in _vectors(name):
        version, form, data = vector["version"], vector["json"], bytes.fromhex(vector["hex"])
        decoded = by_name.decode(name, version, data)
        assert by_name.to_json(decoded, version) == form
        assert by_name.encode(decoded, version) == data
        described = by_name.from_json(name, version, form)
        assert described == decoded
        assert by_name.encode(described, version) == data
