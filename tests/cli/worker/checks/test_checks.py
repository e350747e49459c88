"""What follows for a worker from the facts about its cluster. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from kshare.cli.worker.checks.app_facts import AppFacts, GroupFacts, TopicFacts, members_of
from kshare.cli.worker.checks.groups import check_groups
from kshare.cli.worker.checks.limits import check_limits
from kshare.cli.worker.checks.topics import check_topics
from kshare.doctor.check_result import CheckLevel, CheckResult
from kshare.doctor.operations import AclOperation
from kshare.net.settings import NetSettings
from kshare.worker import Retry, RetryTopics, Worker
from kshare.worker.rules.limits import ShareLimits

READ, WRITE, ALTER = 1 << AclOperation.READ, 1 << AclOperation.WRITE, 1 << AclOperation.ALTER_CONFIGS
TIERS = RetryTopics(tiers=(10, 60))


def facts(options: dict[str, Any] | None = None, **given: Any) -> AppFacts:
    """One handler, `ship`, of the topic `orders` with two partitions."""
    worker = Worker(group="g", **(options or {}))

    @worker.handler("orders")
    async def ship(value: bytes) -> None: ...

    whole: dict[str, Any] = {
        "routes": worker.routes(),
        "settings": NetSettings.parse("broker:9092"),
        "can_renew": True,
        "topics": {"orders": TopicFacts(2)},
        "groups": {"g": GroupFacts()},
        "known_topics": ("orders",),
        "most_members": 200,
    }
    return AppFacts(**(whole | given))


def findings(results: Any) -> list[tuple[CheckLevel, str, str]]:
    """Those that aren't ok."""
    found: list[CheckResult] = list(results)
    return [
        (result.level, result.check, result.text) for result in found if result.level is not CheckLevel.OK
    ]


def only(results: Any, level: CheckLevel, check: str, text: str) -> tuple[str, ...]:
    """Assert that there is one such finding; returns what to do about it."""
    (found,) = [result for result in results if result.level is not CheckLevel.OK]
    assert (found.level, found.check) == (level, check)
    assert text in found.text
    todo: tuple[str, ...] = found.todo
    return todo


def test_nothing_is_wrong() -> None:
    for check in (check_topics, check_groups, check_limits):
        assert findings(check(facts())) == []
        assert list(check(facts()))


# --- topics


def test_a_missing_topic() -> None:
    given = facts(topics={"orders": TopicFacts()}, known_topics=("order",))
    (todo,) = only(
        check_topics(given), CheckLevel.PROBLEM, "topic orders", "it doesn't exist; did you mean 'order'?"
    )
    assert todo == "kshare topics create orders --bootstrap-server broker:9092"


def test_a_topic_that_may_not_be_read() -> None:
    for found in (TopicFacts(2, WRITE), TopicFacts(0, 0)):
        (todo,) = only(
            check_topics(facts(topics={"orders": found})),
            CheckLevel.PROBLEM,
            "topic orders",
            "User:ANONYMOUS may not read it",
        )
        assert "--operation Read --topic orders" in todo


def test_a_pattern_that_matches_nothing() -> None:
    worker = Worker(group="g")

    @worker.handler(re.compile("parcels-.*"))
    async def ship(value: bytes) -> None: ...

    given = facts(routes=worker.routes(), topics={})
    only(check_topics(given), CheckLevel.WARNING, "handler ship", "no topic matches parcels-.* yet")


def test_own_topics_that_are_missing_are_created_if_that_is_allowed() -> None:
    topics = {"orders": TopicFacts(2), "dead": TopicFacts()}
    given = facts({"dead_letters": "dead"}, topics=topics)
    assert findings(check_topics(given)) == []
    assert "the worker will create it" in [topic.text for topic in check_topics(given)][-1]
    refused = facts({"dead_letters": "dead"}, topics={**topics, "dead": TopicFacts(not_created="no right")})
    only(
        check_topics(refused),
        CheckLevel.PROBLEM,
        "topic dead",
        "the dead-letter topic doesn't exist, and can't be created: no right",
    )


def test_retry_topics_are_read_and_written_and_dead_letters_only_written() -> None:
    names = ("orders.retry.10s", "orders.retry.1m")
    topics = {
        "orders": TopicFacts(2),
        "dead": TopicFacts(1, WRITE),
        **dict.fromkeys(names, TopicFacts(1, READ)),
    }
    found = findings(check_topics(facts({"dead_letters": "dead", "retry_topics": TIERS}, topics=topics)))
    assert [(check, text[:30]) for _, check, text in found] == [
        (f"topic {name}", "User:ANONYMOUS may not write i") for name in names
    ]


# --- groups


def test_a_group_of_another_type() -> None:
    given = facts(groups={"g": GroupFacts("Consumer")})
    only(check_groups(given), CheckLevel.PROBLEM, "group g", "it is a consumer group")


def test_a_group_that_may_not_be_read() -> None:
    (todo,) = only(
        check_groups(facts(groups={"g": GroupFacts("Share", 0)})),
        CheckLevel.PROBLEM,
        "group g",
        "may not read it",
    )
    assert "--operation Read --group g" in todo


def test_a_new_group_starts_at_the_end() -> None:
    new = GroupFacts(reset="latest", unread=("orders",))
    (todo,) = only(
        check_groups(facts(groups={"g": new})),
        CheckLevel.WARNING,
        "group g",
        "it has settled nothing of orders yet",
    )
    used = replace(new, members=2)
    only(
        check_groups(facts(groups={"g": used})),
        CheckLevel.WARNING,
        "group g",
        "until its present members have left",
    )
    assert (
        todo == "kshare groups config set g share.auto.offset.reset=earliest --bootstrap-server broker:9092"
    )
    for fine in (
        GroupFacts(reset="latest", unread=("orders",), is_reset_chosen=True),
        GroupFacts(reset="latest"),
        GroupFacts(reset="earliest", unread=("orders",)),
    ):
        assert findings(check_groups(facts(groups={"g": fine}))) == []


def test_the_group_of_retry_topics_must_start_at_the_beginning() -> None:
    options = {"retry_topics": TIERS}
    for retries, count in (
        (GroupFacts(reset="latest", unread=("x",), operations=READ), 1),
        (GroupFacts(reset="latest", unread=("x",), operations=READ | ALTER), 0),
        (GroupFacts(reset="latest", unread=("x",)), 0),
        (GroupFacts(reset="earliest", operations=READ), 0),
        (GroupFacts(unreadable="no right"), 1),
    ):
        given = facts(options, groups={"g": GroupFacts(), "g.retry": retries})
        assert len(findings(check_groups(given))) == count


def test_members_are_counted_for_each_handler_and_each_delay() -> None:
    given = facts({"retry_topics": TIERS}, groups={"g": GroupFacts(), "g.retry": GroupFacts()}, processes=3)
    assert members_of(given.routes) == {"g": 1, "g.retry": 2}
    small = facts(
        {"retry_topics": TIERS},
        groups={"g": GroupFacts(), "g.retry": GroupFacts()},
        processes=3,
        most_members=5,
    )
    only(
        check_groups(small),
        CheckLevel.PROBLEM,
        "group g.retry",
        "3 processes need 6 members, 2 for each process, and brokers allow 5 (group.share.max.size)",
    )


def test_members_that_are_there_already() -> None:
    given = facts(groups={"g": GroupFacts("Share", members=4)}, processes=2, most_members=5)
    only(check_groups(given), CheckLevel.WARNING, "group g", "it has 4 members now, and this worker adds 2")


def test_what_may_not_be_read_is_unknown() -> None:
    given = facts(groups={"g": GroupFacts(unreadable="no right")}, most_members=None)
    assert [level for level, _, _ in findings(check_groups(given))] == [CheckLevel.UNKNOWN] * 2


# --- limits


def test_delays_and_time_limit_against_locks_that_cannot_be_renewed() -> None:
    options = {"retry": Retry(delay=45), "time_limit": 60}
    found = findings(check_limits(facts(options, can_renew=False)))
    assert [level for level, _, _ in found] == [CheckLevel.PROBLEM, CheckLevel.WARNING]
    assert "a delay of 45 s can't be held" in found[0][2]
    assert "locks, which last 30 s" in found[0][2]
    assert "time_limit is 60 s" in found[1][2]
    assert findings(check_limits(facts(options))) == []
    moved = {**options, "retry_topics": TIERS, "time_limit": 20}
    assert findings(check_limits(facts(moved, can_renew=False))) == []


def test_more_attempts_than_deliveries() -> None:
    options = {"retry": Retry(attempts=9)}
    only(
        check_limits(facts(options)), CheckLevel.WARNING, "handler ship", "it allows 9 attempts, but after 5"
    )
    assert findings(check_limits(facts({**options, "dead_letters": "dead"}))) == []
    kept = {"g": GroupFacts(limits=ShareLimits(writes_dead_letters=True))}
    assert findings(check_limits(facts(options, groups=kept))) == []


def test_two_dead_letter_topics() -> None:
    kept = {"g": GroupFacts(limits=ShareLimits(writes_dead_letters=True))}
    given = facts({"dead_letters": "dead"}, groups=kept)
    only(
        check_limits(given),
        CheckLevel.WARNING,
        "handler ship",
        "dead letters go to dead, and brokers write some",
    )


def test_order_by_key_needs_a_partition_for_each_member() -> None:
    given = facts({"order": "key"}, processes=3)
    only(
        check_limits(given), CheckLevel.WARNING, "handler ship", "topic orders has 2 partitions for 3 members"
    )
    assert findings(check_limits(facts({"order": "key"}, processes=2))) == []
    assert findings(check_limits(facts(processes=3))) == []
