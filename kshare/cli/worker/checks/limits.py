"""Checks the options of handlers against the limits of their groups: locks, deliveries, partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kshare.cli.worker.checks.app_facts import AppFacts, members_of
from kshare.doctor.check_result import CheckResult, ok, problem, warning
from kshare.wording import counted
from kshare.worker.handlers.routes import Route
from kshare.worker.rules.limits import ShareLimits

_LOCK = "share.record.lock.duration.ms"


def check_limits(facts: AppFacts) -> Iterator[CheckResult]:
    for route in facts.routes:
        limits = facts.groups[route.group].limits
        results = [
            *([] if facts.can_renew else _locks(route, limits)),
            *_deliveries(route, limits),
            *_dead_letters(route, limits),
            *_order(facts, route),
        ]
        yield from results or [ok(_check(route), "its options fit the limits of the group")]


def _locks(route: Route, limits: ShareLimits) -> Iterator[CheckResult]:
    """Without renewal (Kafka 4.1), nothing may take longer than the lock."""
    options, lock_s = route.options, limits.lock_s
    longest = options.retry.longest_delay()
    if longest >= lock_s and options.tiers is None:
        yield problem(
            _check(route),
            f"a delay of {longest:g} s can't be held: these brokers can't renew locks, which last {lock_s:g} s "
            f"({_LOCK}). Allow retry_topics, shorten the delays, or upgrade to Kafka 4.2",
        )
    if options.time_limit > lock_s:
        yield warning(
            _check(route),
            f"time_limit is {options.time_limit:g} s, but these brokers can't renew locks, which last {lock_s:g} s "
            f"({_LOCK}): a handler that takes longer loses its record",
        )


def _deliveries(route: Route, limits: ShareLimits) -> Iterator[CheckResult]:
    attempts, options = route.options.retry.most_attempts(), route.options
    is_kept = options.tiers is not None or options.dead_letters is not None or limits.writes_dead_letters
    if attempts > limits.deliveries and not is_kept:
        yield warning(
            _check(route),
            f"it allows {attempts} attempts, but after {limits.deliveries} deliveries (share.delivery.count.limit) "
            "brokers archive a record: one whose attempts end without a result, as in a crash, is lost. Set "
            "dead_letters or retry_topics",
        )


def _dead_letters(route: Route, limits: ShareLimits) -> Iterator[CheckResult]:
    if isinstance(route.options.dead_letters, str) and limits.writes_dead_letters:
        yield warning(
            _check(route),
            f"dead letters go to {route.options.dead_letters}, and brokers write some of the group too "
            "(errors.deadletterqueue.topic.name): look into both topics, or choose one",
        )


def _order(facts: AppFacts, route: Route) -> Iterator[CheckResult]:
    """Order by key needs each partition to be read by one member."""
    if route.options.order == "none":
        return
    members = facts.processes * members_of([route])[route.group]
    for topic in route.topics:
        partitions = facts.topics[topic].partitions
        if 0 < partitions < members:
            yield warning(
                _check(route),
                f"topic {topic} has {counted(partitions, 'partition')} for {members} members: several members read a "
                "partition, so records with the same key may be processed at once. Use as many partitions as processes",
            )


def _check(route: Route) -> str:
    return f"handler {route.name}"
