"""Each rule of the linter: silent for correct clients, reported when it is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from kshare.protocol.messages import ShareFetchRequest
from kshare.traffic import Finding
from kshare.traffic.group_tracker import ShareEvent
from kshare.traffic.rules import RULES
from tests.traffic.stage import GROUP, MEMBER, Stage

ACCEPT, RELEASE, RENEW = b"\x01", b"\x02", b"\x04"
STATE, REQUEST, NO_SESSION, BAD_EPOCH, MOVED, NO_TOPIC = 121, 42, 122, 123, 6, 100


def test_correct_client_has_no_findings() -> None:
    stage = Stage()
    stage.heartbeat(0)
    stage.heartbeat(1, 0, 1)
    stage.fetch(0, (0, 99, 1), takes=0.5)
    stage.fetch(1, (100, 199, 1), acks=[(0, 99, ACCEPT)])
    stage.heartbeat(1)
    stage.now += 5
    stage.acknowledge(2, (100, 149, RENEW), (150, 159, RELEASE), is_renewing=True)
    stage.now += 5
    stage.acknowledge(3, (100, 149, ACCEPT), (160, 199, b"\x01\x02" * 20))
    stage.fetch(4, (150, 159, 2), (161, 161, 2))
    stage.heartbeat(1)
    stage.acknowledge(-1, (150, 159, ACCEPT))
    stage.heartbeat(-1)
    stage.close()
    stage.finish()
    assert stage.findings == []


def test_session_may_be_reopened_after_an_error() -> None:
    stage = Stage()
    stage.fetch(0, (0, 9, 1))
    stage.fetch(1, error=NO_SESSION)
    stage.fetch(0, (0, 9, 2))
    stage.acknowledge(1, (0, 9, ACCEPT))
    assert stage.rules == {"turned-away"}


def skips_an_epoch(stage: Stage) -> None:
    stage.fetch(0)
    stage.fetch(2, error=BAD_EPOCH)


def acknowledges_at_opening(stage: Stage) -> None:
    stage.fetch(0, acks=[(0, 9, ACCEPT)], error=REQUEST)


def asks_twice_at_once(stage: Stage) -> None:
    stage.fetch(0, takes=0.5)
    stage.fetch(1, asked_at=stage.now - 0.3)


def opens_again_and_again(stage: Stage) -> None:
    for _ in range(4):
        stage.fetch(0, (0, 9, 1))


def goes_on_in_a_dead_session(stage: Stage) -> None:
    stage.fetch(0)
    stage.fetch(1, error=NO_SESSION)
    stage.fetch(2, error=NO_SESSION)


def hangs_up(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.close()


def acknowledges_what_it_never_had(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (5, 14, ACCEPT), partition_error=STATE)


def acknowledges_too_late(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1), lock_ms=1000)
    stage.now += 1.5
    stage.acknowledge(1, (0, 9, ACCEPT), partition_error=STATE)


def test_acknowledgement_in_a_fetch_that_waits_at_the_broker_is_in_time() -> None:
    stage = Stage()
    stage.fetch(0, (0, 9, 1), lock_ms=1000)
    stage.fetch(1, acks=[(0, 9, ACCEPT)], asked_at=stage.now + 0.1, takes=1.2)
    stage.fetch(2)
    stage.finish()
    assert stage.findings == []


def acknowledges_twice(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (0, 9, ACCEPT))
    stage.acknowledge(2, (3, 3, ACCEPT), partition_error=STATE)


def acknowledges_in_the_next_session(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.fetch(0)
    stage.acknowledge(1, (0, 9, ACCEPT), partition_error=STATE)


def acknowledges_to_another_broker(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.fetch(0, server="other:9092")
    stage.acknowledge(1, (0, 9, ACCEPT), server="other:9092", partition_error=STATE)


def counts_types_wrongly(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (0, 9, ACCEPT * 9), partition_error=REQUEST)


def overlaps_itself(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (0, 5, ACCEPT), (4, 9, ACCEPT), partition_error=REQUEST)


def makes_up_a_type(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (0, 9, b"\x07"), partition_error=REQUEST)


def renews_silently(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (0, 9, RENEW), partition_error=REQUEST)


def renews_and_fetches(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    request = ShareFetchRequest(is_renew_ack=True, max_wait_ms=500, max_bytes=0)
    stage.fetch(1, acks=[(0, 9, RENEW)], request=request, error=REQUEST)


def spoils_good_acknowledgements(stage: Stage) -> None:
    acknowledges_what_it_never_had(stage)


def lets_locks_run_out(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1), lock_ms=1000)
    stage.acknowledge(1, (0, 4, ACCEPT))
    stage.now += 5
    stage.fetch(2)


def never_acknowledges(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1), lock_ms=1000)
    stage.now += 5
    stage.fetch(1)


def renews_for_ever(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1))
    for epoch in range(1, 12):
        stage.now += 20
        stage.acknowledge(epoch, (0, 9, RENEW), is_renewing=True)


def acknowledges_at_the_last_moment(stage: Stage) -> None:
    stage.fetch(0, (0, 9, 1), lock_ms=1000)
    stage.now += 0.95
    stage.acknowledge(1, (0, 9, ACCEPT))


def gets_the_same_again_and_again(stage: Stage) -> None:
    for epoch in range(0, 6, 2):
        stage.fetch(epoch, (0, 9, epoch // 2 + 1))
        stage.acknowledge(epoch + 1, (0, 9, RELEASE))


def nibbles(stage: Stage) -> None:
    for epoch in range(20):
        first = epoch * 10
        acks = [(first - 10, first - 1, ACCEPT)] if epoch else None
        stage.fetch(
            epoch,
            (first, first + 9, 1),
            acks=acks,
            request=ShareFetchRequest(max_wait_ms=500, max_records=10),
        )


def polls_without_waiting(stage: Stage) -> None:
    for epoch in range(50):
        stage.fetch(epoch, request=ShareFetchRequest(max_wait_ms=0, max_records=500))


def never_forgets(stage: Stage) -> None:
    stage.heartbeat(1, 0)
    stage.fetch(0)
    stage.heartbeat(1, 1)
    for epoch in range(1, 6):
        stage.now += 4
        stage.heartbeat(1)
        stage.fetch(epoch)


def test_partition_that_is_forgotten_in_time_is_no_finding() -> None:
    stage = Stage()
    stage.heartbeat(1, 0)
    stage.fetch(0)
    stage.heartbeat(1, 1)
    stage.fetch(1, forgets=[0])
    for epoch in range(2, 6):
        stage.now += 4
        stage.heartbeat(1)
        stage.fetch(epoch)
    assert stage.findings == []


def asks_the_wrong_broker(stage: Stage) -> None:
    for epoch in range(3):
        stage.fetch(epoch, partition_error=MOVED)


def asks_for_a_topic_that_is_gone(stage: Stage) -> None:
    for epoch in range(10):
        stage.fetch(epoch, partition_error=NO_TOPIC)


def beats_late(stage: Stage) -> None:
    stage.heartbeat(1)
    stage.now += 20
    stage.heartbeat(1)


def has_a_name_of_its_own(stage: Stage) -> None:
    stage.fetch(0, member="me", error=-1)


def forgets_to_leave(stage: Stage) -> None:
    stage.heartbeat(1, 0)
    stage.fetch(0)
    stage.acknowledge(-1)
    stage.close()
    stage.finish()


def pins_the_window(stage: Stage) -> None:
    """Holds the first record and settles all others, until nothing more is delivered."""
    stage.fetch(0, (0, 1499, 1))
    stage.fetch(1, (1500, 2378, 1), acks=[(1, 1499, ACCEPT)])
    stage.fetch(2, acks=[(1500, 2378, ACCEPT)], takes=0.5)
    for epoch in range(3, 10):
        stage.fetch(epoch, takes=0.5)


def is_turned_away(stage: Stage) -> None:
    stage.fetch(0, error=133)


def leaves_bytes_over(stage: Stage) -> None:
    stage.ask_for_topics(behind=b"\x01\x00\x00")


SINS: dict[str, Callable[[Stage], None]] = {
    "skipped-epoch": skips_an_epoch,
    "acks-at-epoch-0": acknowledges_at_opening,
    "requests-at-once": asks_twice_at_once,
    "session-resets": opens_again_and_again,
    "dead-session": goes_on_in_a_dead_session,
    "session-left-open": hangs_up,
    "turned-away": is_turned_away,
    "not-acquired": acknowledges_what_it_never_had,
    "after-the-lock": acknowledges_too_late,
    "settled-twice": acknowledges_twice,
    "lost-session": acknowledges_in_the_next_session,
    "wrong-broker": acknowledges_to_another_broker,
    "types-length": counts_types_wrongly,
    "ranges-out-of-order": overlaps_itself,
    "unknown-type": makes_up_a_type,
    "renew-unsaid": renews_silently,
    "renew-and-fetch": renews_and_fetches,
    "good-with-bad": spoils_good_acknowledgements,
    "lock-ran-out": lets_locks_run_out,
    "never-acknowledges": never_acknowledges,
    "endless-renewals": renews_for_ever,
    "slow-acknowledgements": acknowledges_at_the_last_moment,
    "redelivery-loop": gets_the_same_again_and_again,
    "small-fetches": nibbles,
    "busy-polling": polls_without_waiting,
    "never-forgotten": never_forgets,
    "not-the-leader": asks_the_wrong_broker,
    "no-such-topic": asks_for_a_topic_that_is_gone,
    "late-heartbeats": beats_late,
    "member-id": has_a_name_of_its_own,
    "group-not-left": forgets_to_leave,
    "pinned-window": pins_the_window,
    "surplus-bytes": leaves_bytes_over,
}
ALONGSIDE = {
    "skipped-epoch": {"turned-away"},
    "acks-at-epoch-0": {"turned-away"},
    "dead-session": {"turned-away"},
    "not-acquired": {"good-with-bad"},
    "good-with-bad": {"not-acquired"},
    "renew-and-fetch": {"turned-away"},
    "after-the-lock": {"lock-ran-out", "never-acknowledges"},
    "never-acknowledges": {"lock-ran-out"},
    "member-id": {"turned-away"},
}


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_each_broken_rule_is_reported(rule: str) -> None:
    stage = Stage()
    SINS[rule](stage)
    assert rule in stage.rules
    assert stage.rules <= {rule} | ALONGSIDE.get(rule, set())
    finding = next(finding for finding in stage.findings if finding.rule == rule)
    if rule == "surplus-bytes":  # found for any client, member or not
        assert (finding.group, finding.member) == ("", "")
    else:
        assert finding.group == GROUP
        assert finding.member == (MEMBER if rule != "member-id" else "me")
    assert finding.client_id == "truck-7"


def test_leaving_the_group_is_unknown_if_the_capture_ends_before_the_connection() -> None:
    stage = Stage()
    stage.heartbeat(1, 0)
    stage.fetch(0)
    stage.acknowledge(-1)
    stage.finish()
    assert "group-not-left" not in stage.rules


def test_finding_names_what_pins_the_window() -> None:
    stage = Stage()
    pins_the_window(stage)
    (said,) = [finding for finding in stage.findings if finding.rule == "pinned-window"]
    assert (
        said.text.partition("-0 ")[2]
        == "offset 0 held for 3 s, 2379 offsets in flight: nothing new is delivered"
    )


def test_window_that_moves_or_has_space_is_not_pinned() -> None:
    moves, has_room, is_settled = Stage(), Stage(), Stage()
    moves.fetch(0, (0, 1999, 1))
    for epoch in range(1, 9):  # each batch is held for a while, but not for long
        first = 2000 * epoch
        moves.fetch(epoch, (first, first + 1999, 1), acks=[(first - 2000, first - 1, ACCEPT)], takes=2.0)
    has_room.fetch(0, (0, 1998, 1))
    has_room.fetch(1, acks=[(1, 1998, ACCEPT)])
    is_settled.fetch(0, (0, 2378, 1))
    is_settled.fetch(1, acks=[(0, 0, RELEASE), (1, 2378, ACCEPT)])
    for stage in (has_room, is_settled):
        for epoch in range(2, 10):
            stage.fetch(epoch, takes=1.0)
    assert not any("pinned-window" in stage.rules for stage in (moves, has_room, is_settled))


def test_rules_that_skip_regular_exchanges_miss_no_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def heard() -> list[Finding]:
        """Each misbehaviour, followed by some regular exchanges."""
        found: list[Finding] = []
        for sin in SINS.values():
            stage = Stage()
            sin(stage)
            for epoch in range(3):
                stage.fetch(epoch, (1000 + epoch, 1000 + epoch, 1))
            stage.acknowledge(3, (1000, 1002, ACCEPT))
            stage.finish()
            found += stage.findings
        return found

    expected = [asdict(finding) for finding in heard()]
    monkeypatch.setattr(ShareEvent, "is_in_order", False)
    assert [asdict(finding) for finding in heard()] == expected


def test_rule_names_are_unique_and_have_advice() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) >= 12
    assert all(rule.about.endswith(".") for rule in RULES)


def test_all_rules_are_documented() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [rule.name for rule in RULES if f"| `{rule.name}` | {rule.level} |" not in guide] == []


def test_frequent_findings_are_reported_rarely_and_counted() -> None:
    stage = Stage()
    stage.fetch(0)
    for _ in range(99):
        stage.fetch(7, error=BAD_EPOCH)
    said = [finding for finding in stage.findings if finding.rule == "skipped-epoch"]
    assert [finding.count for finding in said] == [1, 10]
    (total,) = [finding for finding in stage.watch.summary.findings if finding.rule == "skipped-epoch"]
    assert total.count == 99


def test_sessions_that_began_before_the_capture_have_no_findings() -> None:
    stage = Stage()
    stage.fetch(17, (100, 199, 1), acks=[(0, 99, ACCEPT)])
    stage.acknowledge(18, (100, 249, ACCEPT))
    assert stage.findings == []


def test_sessions_with_missing_bytes_have_no_findings() -> None:
    stage = Stage()
    stage.heartbeat(0)
    stage.fetch(0, (0, 9, 1))
    stage.acknowledge(1, (0, 9, ACCEPT))
    stage.missing_bytes()
    stage.now += 60
    stage.heartbeat(1)
    stage.fetch(5, (10, 19, 1), acks=[(0, 9, ACCEPT)])
    stage.fetch(6, error=NO_SESSION)
    stage.missing_bytes()
    stage.fetch(3)
    stage.missing_bytes()
    stage.close()
    stage.finish()
    assert stage.rules == {"turned-away"}


def test_session_seen_again_after_missing_bytes_is_checked() -> None:
    stage = Stage()
    stage.fetch(0)
    stage.missing_bytes()
    stage.fetch(4)
    stage.fetch(6)
    assert stage.rules == {"skipped-epoch"}


def test_missing_bytes_on_another_connection_may_hide_a_new_session() -> None:
    stage = Stage()
    stage.fetch(0)
    stage.reconnect()
    stage.missing_bytes()
    stage.fetch(4)
    assert stage.findings == []
