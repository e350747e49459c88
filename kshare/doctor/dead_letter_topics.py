"""Checks the dead-letter topics of groups. If a topic is unsuitable, brokers silently write no dead letters.

Groups without one are only noted, all on one line: a group needs none if its members never reject, or keep copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.expected_rows import expected_row
from kshare.admin.routing import Router
from kshare.doctor.check_result import CheckResult, ok, problem
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.group_settings import check_of, chosen_groups, set_command
from kshare.errors import BrokerError, NotAuthorized
from kshare.monitor.tracking_groups import is_tracking
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import counted

_CHECK = "dead letters"
_SETTINGS = "errors.deadletterqueue."
_TOPIC = f"{_SETTINGS}topic.name"
_ENABLED = f"{_SETTINGS}group.enable"
_PREFIX = f"{_SETTINGS}topic.name.prefix"
_USUAL_PREFIX = "dlq."
_MAY_CREATE = f"{_SETTINGS}auto.create.topics.enable"
BROKERS_DECIDE_BY = (_PREFIX, _MAY_CREATE)
"""Settings of brokers that decide about the topic."""


async def dead_letter_topics(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    without: list[str] = []
    for group in await chosen_groups(info):
        settings = {one.name: one.value for one in await info.group_config(group)}
        topic = settings.get(_TOPIC)
        if topic:
            brokers = await info.broker_settings(*BROKERS_DECIDE_BY)
            yield await judge_dead_letter_topic(info.router, info.server, group, topic, brokers)
        elif _TOPIC in settings and not is_tracking(group):  # brokers before Kafka 4.4 don't have the setting
            without.append(group)
    if without:
        yield await _without(info, without)


async def _without(info: ClusterInfo, groups: Sequence[str]) -> CheckResult:
    first, more = groups[0], len(groups) - 1
    others = f" and {counted(more, 'more group')}" if more else ""
    try:
        prefix = (await info.broker_settings(_PREFIX)).get(_PREFIX) or _USUAL_PREFIX
    except NotAuthorized:
        prefix = _USUAL_PREFIX
    return ok(
        _CHECK,
        f"no dead-letter topic is set for {first}{others}: brokers keep no copies of records that are rejected or "
        "given up. To keep them:",
        _create_command(info.server, f"{prefix}{first}"),
        set_command(info.server, first, f"{_TOPIC}={prefix}{first}"),
    )


def _create_command(server: str, topic: str) -> str:
    return f"kshare topics create {topic} --config {_ENABLED}=true --bootstrap-server {server}"


async def judge_dead_letter_topic(
    router: Router, server: str, group: str, topic: str, brokers: Mapping[str, str | None]
) -> CheckResult:
    """Whether brokers would write the group's dead letters to it. `brokers`: their values of `BROKERS_DECIDE_BY`."""
    check = check_of(group)
    effect = "records are archived without a dead letter"
    prefix = brokers.get(_PREFIX) or ""
    if not topic.startswith(prefix):
        return problem(
            check,
            f"its dead-letter topic is {topic}, but brokers only write to names that begin with {prefix!r}: {effect}",
            set_command(server, group, f"{_TOPIC}={prefix}{topic}"),
        )
    try:
        await router.metadata([topic])
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if brokers.get(_MAY_CREATE) == "true":
            return ok(check, f"dead letters go to {topic}, which will be created with the first one")
        return problem(
            check,
            f"its dead-letter topic is {topic}, which doesn't exist: {effect}",
            _create_command(server, topic),
        )
    found = await configs.describe(router, ConfigResource.TOPIC, topic, keys=[_ENABLED])
    entry = expected_row(found, "DescribeConfigs", f"{_ENABLED} of topic {topic}")
    if entry.value != "true":
        return problem(
            check,
            f"its dead-letter topic is {topic}, which accepts no dead letters ({_ENABLED} is {entry.value}): {effect}",
            f"kafka-configs.sh --bootstrap-server {server} --alter --entity-type topics --entity-name {topic} "
            f"--add-config {_ENABLED}=true",
        )
    return ok(check, f"dead letters go to {topic}")
