"""Checks the groups of a worker: their type, rights, where they start, and how many members they may have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kshare.admin.expected_starts import RESET
from kshare.cli.worker.checks.app_facts import AppFacts, GroupFacts, members_of
from kshare.doctor.check_result import CheckResult, ok, problem, unknown, warning
from kshare.doctor.commands import set_command
from kshare.doctor.group_settings import check_of
from kshare.doctor.operations import AclOperation, allows
from kshare.net.permissions import Right, grant, principal
from kshare.worker.settle.retry_group import retry_group

MOST_MEMBERS = "group.share.max.size"


def check_groups(facts: AppFacts) -> Iterator[CheckResult]:
    for group, found in facts.groups.items():
        results = [
            *_type(group, found),
            *_rights(facts, group, found),
            *_start(facts, group, found),
            *_size(facts, group, found),
        ]
        if found.unreadable and not _has_retry_topics(facts, group):
            results.append(unknown(check_of(group), f"its limits were not checked: {found.unreadable}"))
        yield from results or [ok(check_of(group), "no problems")]


def too_many(processes: int, members: int, most: int) -> str:
    """The text for processes that need more members than brokers allow."""
    of_each = "" if members == 1 else f", {members} for each process"
    return (
        f"{processes} processes need {processes * members} members{of_each}, and brokers allow {most} "
        f"({MOST_MEMBERS})"
    )


def _type(group: str, found: GroupFacts) -> Iterator[CheckResult]:
    if found.type and found.type.lower() != "share":
        kind = found.type.lower()
        text = f"it is a {kind} group: a share group can't have the same name. Choose another one"
        yield problem(check_of(group), text)


def _rights(facts: AppFacts, group: str, found: GroupFacts) -> Iterator[CheckResult]:
    if not allows(found.operations, AclOperation.READ):
        who = principal(facts.settings) or "this user"
        command = grant(Right("Read", "group", group), facts.settings)
        yield problem(check_of(group), f"{who} may not read it, which members need", command)
    if found.unreadable and _has_retry_topics(facts, group):
        command = grant(Right("DescribeConfigs", "group", group), facts.settings)
        yield problem(check_of(group), "retry topics need its settings, which may not be read", command)
    elif _is_for_retries(facts, group) and not (
        found.reset == "earliest" or allows(found.operations, AclOperation.ALTER_CONFIGS)
    ):
        yield problem(
            check_of(group),
            "it reads retry topics, so it must start at the earliest offset, and the worker may not set that",
            set_command(facts.server, group, f"{RESET}=earliest"),
        )


def _start(facts: AppFacts, group: str, found: GroupFacts) -> Iterator[CheckResult]:
    """A common surprise: by default, a new group doesn't receive existing records."""
    if found.reset != "latest" or found.is_reset_chosen or not found.unread:
        return
    if _is_for_retries(facts, group):
        return  # the worker sets it
    when = "; earliest has no effect until its present members have left" if found.members else ""
    yield warning(
        check_of(group),
        f"it has settled nothing of {', '.join(found.unread)} yet, and {RESET} is latest: it starts at the end and "
        f"never receives existing records{when}",
        set_command(facts.server, group, f"{RESET}=earliest"),
    )


def _size(facts: AppFacts, group: str, found: GroupFacts) -> Iterator[CheckResult]:
    members, most = members_of(facts.routes)[group], facts.most_members
    if most is None:
        yield unknown(check_of(group), f"its size was not checked: {MOST_MEMBERS} can't be read")
    elif members * facts.processes > most:
        yield problem(check_of(group), too_many(facts.processes, members, most))
    elif members * facts.processes + found.members > most:
        yield warning(
            check_of(group),
            f"it has {found.members} members now, and this worker adds {members * facts.processes}: brokers allow "
            f"{most} ({MOST_MEMBERS})",
        )


def _is_for_retries(facts: AppFacts, group: str) -> bool:
    return group in {retry_group(route.group) for route in facts.routes}


def _has_retry_topics(facts: AppFacts, group: str) -> bool:
    """Whether it is a group of retry topics, or has one."""
    return any(
        group in (route.group, retry_group(route.group)) for route in facts.routes if route.options.tiers
    )
