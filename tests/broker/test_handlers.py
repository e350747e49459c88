"""Docstrings of handlers are changelogs of the API: one entry for each version, naming the added and removed fields."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kshare.broker.handlers import handler_for
from kshare.broker.profiles import profile
from kshare.protocol.api_keys import API_NAMES
from tools.kgen.model import Field, Message, read_folder, walk

RELEASES = ("4.1", "4.3", "4.4")
MESSAGES = {
    (message.api_key, message.kind): message
    for message in read_folder(Path(__file__).parents[2] / "schemas")
    if message.kind in ("request", "response")
}
each_api = pytest.mark.parametrize("api_key", profile("4.4").versions, ids=API_NAMES.get)


def served(api_key: int) -> range:
    """The lowest to the highest version that any release serves and that we have a schema for."""
    ranges = [profile(release).versions[api_key] for release in RELEASES]
    known = MESSAGES[api_key, "request"].versions
    first = max(known.first, min(first for first, _ in ranges))
    return range(first, min(known.last, max(last for _, last in ranges)) + 1)


def docs_of(api_key: int) -> str:
    return sys.modules[handler_for(api_key).__module__].__doc__ or ""


def changelog(docs: str) -> dict[int, str]:
    """The text of each version's entry, which may span several lines."""
    entries = re.findall(r"^v(\d+): ((?:.|\n(?=    ))+)$", docs, flags=re.MULTILINE)
    assert len({number for number, _ in entries}) == len(entries)
    return {int(number): text for number, text in entries}


def changed(message: Message, version: int) -> set[str]:
    """Fields that were added in this version or removed before it; fields nested in them are left out."""
    found: dict[str, Field] = {}
    for path, field in walk(message.body):
        begins = message.versions.first < version == field.versions.first
        has_ended = bool(field.versions) and field.versions.last == version - 1
        if (begins or has_ended) and not any(path.startswith(f"{outer}.") for outer in found):
            found[path] = field
    return {field.name for field in found.values()}


@each_api
def test_docstring_names_every_served_version(api_key: int) -> None:
    versions = served(api_key)
    docs = docs_of(api_key)
    assert list(changelog(docs)) == list(versions)
    title = f"v{versions[0]}" + (f"-{versions[-1]}" if len(versions) > 1 else "")
    assert re.match(rf"{MESSAGES[api_key, 'request'].api_name} {title}\b", docs)


@each_api
def test_docstring_names_every_added_or_removed_field(api_key: int) -> None:
    entries = changelog(docs_of(api_key))
    for version in served(api_key)[1:]:
        for kind in ("request", "response"):
            missing = {
                name
                for name in changed(MESSAGES[api_key, kind], version)
                if not re.search(rf"\b{name}\b", entries[version])
            }
            assert not missing, f"v{version}, {kind}"


@pytest.mark.parametrize("release", RELEASES)
def test_releases_offer_only_versions_with_a_schema(release: str) -> None:
    offered = profile(release).versions.items()
    assert [key for key, (_, last) in offered if last > MESSAGES[key, "request"].versions.last] == []
