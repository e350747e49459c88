"""Our schemas match Kafka's own message definitions, for every release and every version."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.structure import Document, differences, parse, structure, versions
from tools.kafka.jars import NEWEST_RELEASE, RELEASES, jar

pytestmark = pytest.mark.java

_SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
_ARTIFACTS = ("kafka-clients", "kafka-share-coordinator", "kafka-group-coordinator")
_FOLDER = "common/message/"

# Where a release differs from 4.4.0 in the same version of a message. None of this changes the wire format for a
# client: names and flags of Kafka's own code, or tagged fields, which older brokers leave out and skip.
_MAP_KEY = "Kafka 4.4 keeps these topics in a map; the wire format is the same array"
_IGNORABLE = (
    "Kafka 4.4 allows leaving out topic names if there are topic ids, as of a version that was added later"
)
_TAGGED = "a tagged field that was added in a later release"
_BEFORE_4_4 = {
    ("DescribeProducersRequest", "fields.Topics.fields.Name.mapKey"): _MAP_KEY,
    ("TxnOffsetCommitRequest", "fields.Topics.fields.Name.ignorable"): _IGNORABLE,
    ("TxnOffsetCommitResponse", "fields.Topics.fields.Name.ignorable"): _IGNORABLE,
}
_BEFORE_4_3 = _BEFORE_4_4 | {
    ("ShareGroupTargetAssignmentMetadataValue", "fields.AssignmentTimestamp"): _TAGGED,
}
_BEFORE_4_2 = _BEFORE_4_3 | {
    ("ShareSnapshotValue", "fields.DeliveryCompleteCount"): _TAGGED,
    ("ShareUpdateValue", "fields.DeliveryCompleteCount"): _TAGGED,
}
_KNOWN: dict[str, dict[tuple[str, str], str]] = {
    "4.1.2": _BEFORE_4_2,
    "4.2.1": _BEFORE_4_3,
    "4.3.1": _BEFORE_4_4,
    "4.4.0": {},
}

# Fields that were renamed in 4.4.0: same position, same type.
_RENAMED = {"TxnOffsetCommitRequest": {"GenerationId": "GenerationIdOrMemberEpoch"}}

# Definitions that were added in a later release.
_ABSENT = {"4.1.2": {"ControlRecordTypeSchema"}, "4.2.1": {"ControlRecordTypeSchema"}}


@cache
def _theirs(release: str) -> dict[str, Document]:
    """All definitions in the jars of a release."""
    found = {}
    for artifact in _ARTIFACTS:
        with zipfile.ZipFile(jar(release, artifact)) as archive:
            for name in archive.namelist():
                if name.startswith(_FOLDER) and name.endswith(".json"):
                    document = parse(archive.read(name).decode("utf-8"))
                    found[document["name"]] = document
    return found


@cache
def _ours() -> dict[str, Document]:
    """All our schemas."""
    return {path.stem: parse(path.read_text(encoding="utf-8")) for path in _SCHEMAS.glob("[A-Z]*.json")}


def _releases(name: str) -> Iterator[str]:
    """The releases that have a message."""
    return (release for release in RELEASES if name not in _ABSENT.get(release, set()))


def _renamed(document: Document) -> Document:
    names = _RENAMED.get(document["name"], {})
    fields = [{**field, "name": names.get(field["name"], field["name"])} for field in document["fields"]]
    return {**document, "fields": fields}


@pytest.mark.parametrize("release", RELEASES)
def test_all_our_schemas_are_messages_of_the_release(release: str) -> None:
    assert _ours().keys() - _theirs(release).keys() == _ABSENT.get(release, set())


@pytest.mark.parametrize("name", sorted(_ours()))
def test_the_structure_is_the_same_in_every_version(name: str) -> None:
    for release in _releases(name):
        theirs = _renamed(_theirs(release)[name])
        found = {
            difference
            for version in versions(theirs["validVersions"])
            for difference in differences(structure(_ours()[name], version), structure(theirs, version))
        }
        known = {path for message, path in _KNOWN[release] if message == name}
        assert not [difference for difference in found if difference.partition(": ")[0] not in known], release
        assert {difference.partition(": ")[0] for difference in found} == known, (
            f"{release}: a known difference doesn't exist any more"
        )


@pytest.mark.parametrize("name", sorted(_ours()))
def test_our_versions_cover_those_of_every_release(name: str) -> None:
    ours = set(versions(_ours()[name]["validVersions"]))
    for release in _releases(name):
        assert set(versions(_theirs(release)[name]["validVersions"])) <= ours, release


@pytest.mark.parametrize("name", sorted(_ours()))
def test_our_versions_are_those_of_the_newest_release(name: str) -> None:
    ours, theirs = _ours()[name], _theirs(NEWEST_RELEASE)[name]
    assert versions(ours["validVersions"]) == versions(theirs["validVersions"])
    assert ours.get("listeners") == theirs.get("listeners")
    assert ours.get("latestVersionUnstable", False) == theirs.get("latestVersionUnstable", False)
