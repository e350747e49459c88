"""Checks that the topics of a worker exist, or can be created, and that this user may read and write them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kshare.cli.worker.checks.app_facts import AppFacts, dead_topics, retry_topics, source_topics
from kshare.doctor.check_result import CheckResult, ok, problem, warning
from kshare.doctor.commands import create_command
from kshare.doctor.operations import AclOperation, allows
from kshare.net.permissions import Right, grant, principal
from kshare.wording import counted, did_you_mean

_READ, _WRITE = ((AclOperation.READ, "Read"),), ((AclOperation.WRITE, "Write"),)


def check_topics(facts: AppFacts) -> Iterator[CheckResult]:
    for route in facts.routes:
        if route.patterns and not route.topics:
            patterns = ", ".join(pattern.pattern for pattern in route.patterns)
            yield warning(f"handler {route.name}", f"no topic matches {patterns} yet")
    for topic in source_topics(facts.routes):
        yield from _source(facts, topic)
    for topic in retry_topics(facts.routes):
        yield from _own(facts, topic, "retry topic", (*_READ, *_WRITE))
    for topic in dead_topics(facts.routes):
        yield from _own(facts, topic, "dead-letter topic", _WRITE)


def _source(facts: AppFacts, topic: str) -> Iterator[CheckResult]:
    found = facts.topics[topic]
    refused = list(_refused(facts, topic, _READ))
    if refused:
        yield from refused
    elif not found.partitions:
        near = did_you_mean(topic, facts.known_topics)
        yield problem(f"topic {topic}", f"it doesn't exist{near}", create_command(facts.server, topic))
    else:
        yield ok(f"topic {topic}", f"{counted(found.partitions, 'partition')}, and it may be read")


def _own(
    facts: AppFacts, topic: str, kind: str, rights: tuple[tuple[AclOperation, str], ...]
) -> Iterator[CheckResult]:
    found, check = facts.topics[topic], f"topic {topic}"
    if found.partitions:
        yield from list(_refused(facts, topic, rights)) or [ok(check, f"the {kind} exists, and may be used")]
    elif found.not_created:
        text = f"the {kind} doesn't exist, and can't be created: {found.not_created}"
        yield problem(check, text, *([found.grant] if found.grant else []))
    elif found.operations is not None and not found.operations:
        yield from _refused(facts, topic, rights)
    else:
        yield ok(check, f"the {kind} doesn't exist yet: the worker will create it")


def _refused(
    facts: AppFacts, topic: str, rights: tuple[tuple[AclOperation, str], ...]
) -> Iterator[CheckResult]:
    """Nothing is known about the rights on a topic that doesn't exist, unless it isn't even visible."""
    found = facts.topics[topic]
    if not found.partitions and found.operations != 0:
        return
    for operation, name in rights:
        if not allows(found.operations, operation):
            who = principal(facts.settings) or "this user"
            verb = name.lower()
            command = grant(Right(name, "topic", topic), facts.settings)
            yield problem(f"topic {topic}", f"{who} may not {verb} it, or it doesn't exist", command)
