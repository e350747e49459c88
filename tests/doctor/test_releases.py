"""Which release a broker runs, and which defects that means."""

from __future__ import annotations

import pytest

from kshare.broker.profiles import RELEASES, profile
from kshare.doctor.releases import COLON_IN_NAME, DEADLOCK, SKIPPED_RECORDS, KnownDefect, minor_release
from kshare.net.versions import BrokerVersions

SHARE_ACKNOWLEDGE = 79


def versions(level: int, acknowledge: int = 2) -> BrokerVersions:
    return BrokerVersions({SHARE_ACKNOWLEDGE: (1, acknowledge)}, {}, {"metadata.version": level})


@pytest.mark.parametrize("release", RELEASES)
def test_emulated_releases(release: str) -> None:
    known = profile(release)
    level = known.features["metadata.version"][1]
    found = minor_release(versions(level, known.versions[SHARE_ACKNOWLEDGE][1]))
    assert found == tuple(map(int, release.split(".")))


@pytest.mark.parametrize(
    ("level", "acknowledge", "expected"), [(29, 2, (4, 2)), (31, 2, None), (99, 2, None), (33, 1, (4, 1))]
)
def test_other_releases(level: int, acknowledge: int, expected: tuple[int, int] | None) -> None:
    """31 is a development version between 4.3 and 4.4."""
    assert minor_release(versions(level, acknowledge)) == expected


def test_broker_without_share_groups() -> None:
    assert minor_release(BrokerVersions({}, {}, {})) is None


@pytest.mark.parametrize("defect", [COLON_IN_NAME, DEADLOCK, SKIPPED_RECORDS])
def test_texts_name_the_issue(defect: KnownDefect) -> None:
    assert "KAFKA-" in defect.text
    assert not defect.has & defect.may_have
