"""Checks the groups of a worker: their type, rights, where they start, and how many members they may have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kshare.cli.worker.checks.app_facts import AppFacts, GroupFacts, members_of
from kshare.doctor.check_result import CheckResult, ok, problem, unknown, warning
from kshare.doctor.operations import AclOperation, allows
from kshare.net.addresses import format_address
from kshare.net.permissions import Right, grant, principal
from kshare.wording import shell_word
from kshare.worker.settle.retry_group import retry_group

MOST_MEMBERS = "group.share.max.size"
_RESET = "share.auto.offset.reset"


def check_groups(facts: AppFacts) -> Iterator[CheckResult]:
    for group, found in facts.groups.items():
        results = [
            *_type(group, found),
            *_rights(facts, group, found),
            *_start(facts, group, found),
            *_size(facts, group, found),
        ]
        if found.unreadable and not _has_retry_topics(facts, group):
            results.append(unknown(f"group {group}", f"its limits were not checked: {found.unreadable}"))
        yield from results or [ok(f"group {group}", "no problems")]


def too_many(processes: int, members: int, most: int) -> str:
    """The text for processes that need more members than brokers allow."""
    of_each = "" if members == 1 else f", {members} for each process"
    return (
        f"{processes} processes need {processes * members} members{of_each}, and brokers allow {most} "
        f"({MOST_MEMBERS})"
    )


def _type(group: str, found: GroupFacts) -> Iterator[CheckResult]:
    if found.type and found.type.lower() != "share":
        yield problem(
            f"group {group}",
            f"it is a {found.type.lower()} group: a share group can't have the same name. Choose another one",
        )


def _rights(facts: AppFacts, group: str, found: GroupFacts) -> Iterator[CheckResult]:
    if not allows(found.operations, AclOperation.READ):
        who = principal(facts.settings) or "this user"
        command = grant(Right("Read", "group", group), facts.settings)
        yield problem(f"group {group}", f"{who} may not read it, which members need", command)
    if found.unreadable and _has_retry_topics(facts, group):
        command = grant(Right("DescribeConfigs", "group", group), facts.settings)
        yield problem(f"group {group}", "retry topics need its settings, which may not be read", command)
    elif _is_for_retries(facts, group) and not (
        found.reset == "earliest" or allows(found.operations, AclOperation.ALTER_CONFIGS)
    ):
        yield problem(
            f"group {group}",
            "it reads retry topics, so it must start at the earliest offset, and the worker may not set that",
            f"kshare groups config set {shell_word(group)} {_RESET}=earliest --bootstrap-server {_server(facts)}",
        )


def _start(facts: AppFacts, group: str, found: GroupFacts) -> Iterator[CheckResult]:
    """A common surprise: by default, a new group doesn't receive existing records."""
    if found.reset != "latest" or found.is_reset_chosen or not found.unread:
        return
    if _is_for_retries(facts, group):
        return  # the worker sets it
    when = "; earliest has no effect until its present members have left" if found.members else ""
    yield warning(
        f"group {group}",
        f"it has settled nothing of {', '.join(found.unread)} yet, and {_RESET} is latest: it starts at "
        f"the end, and never gets the records that are there{when}",
        f"kshare groups config set {shell_word(group)} {_RESET}=earliest --bootstrap-server {_server(facts)}",
    )


def _size(facts: AppFacts, group: str, found: GroupFacts) -> Iterator[CheckResult]:
    members, most = members_of(facts.routes)[group], facts.most_members
    if most is None:
        yield unknown(f"group {group}", f"its size was not checked: {MOST_MEMBERS} can't be read")
    elif members * facts.processes > most:
        yield problem(f"group {group}", too_many(facts.processes, members, most))
    elif members * facts.processes + found.members > most:
        yield warning(
            f"group {group}",
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


def _server(facts: AppFacts) -> str:
    return format_address(facts.settings.bootstrap[0])
