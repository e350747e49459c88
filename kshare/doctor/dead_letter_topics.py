"""Checks the dead-letter topics of groups. If a topic is unsuitable, brokers silently write no dead letters.

Groups without one are only noted, all on one line: a group needs none if its members never reject, or keep copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.expected_rows import expected_row
from kshare.admin.routing import Router
from kshare.dead_letters.self_written import self_written
from kshare.doctor.check_result import CheckLevel, CheckResult, ok, problem
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.commands import create_command, set_command, topic_config_command
from kshare.doctor.group_settings import check_of, chosen_groups
from kshare.errors import BrokerError, NotAuthorized
from kshare.monitor.dead_letter_topics import (
    BROKERS_DECIDE_BY,
    DEAD_LETTER_TOPIC,
    GROUP_ENABLE,
    PREFIX,
    DeadLetterFlaw,
    dead_letter_flaw,
    has_prefix,
)
from kshare.monitor.tracking_groups import is_tracking
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import counted

_CHECK = "dead letters"
_USUAL_PREFIX = "dlq."
_ENABLING = f"{GROUP_ENABLE}=true"


async def dead_letter_topics(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    without: list[str] = []
    for group in await chosen_groups(info):
        settings = {entry.name: entry.value for entry in await info.group_config(group)}
        topic, found = settings.get(DEAD_LETTER_TOPIC), None
        if topic:
            brokers = await info.broker_settings(*BROKERS_DECIDE_BY)
            found = await judge_dead_letter_topic(info.router, info.server, group, topic, brokers)
        elif DEAD_LETTER_TOPIC in settings and not is_tracking(group):  # before Kafka 4.4, it isn't
            without.append(group)
        if group in info.well_configured and (found is None or found.level is CheckLevel.OK):
            yield ok(check_of(group), "no configuration problems")
        if found is not None:
            yield found
    if without:
        written = info.self_written = await _self_written(info, without)
        for topic in sorted(set(written.values())):
            names = _first_of([group for group in without if written.get(group) == topic])
            yield ok(_CHECK, f"{names}: members write dead letters to topic {topic} themselves, not brokers")
        if others := [group for group in without if group not in written]:
            yield await _without(info, others)


async def _self_written(info: ClusterInfo, groups: Sequence[str]) -> Mapping[str, str]:
    """Groups whose members write dead letters, and the topic; none if we may not read them."""
    try:
        return await self_written(info.router, groups)
    except BrokerError:
        return {}


def _first_of(groups: Sequence[str]) -> str:
    more = len(groups) - 1
    return groups[0] + (f" and {counted(more, 'more group')}" if more else "")


async def _without(info: ClusterInfo, groups: Sequence[str]) -> CheckResult:
    first = groups[0]
    try:
        prefix = (await info.broker_settings(PREFIX)).get(PREFIX) or _USUAL_PREFIX
    except NotAuthorized:
        prefix = _USUAL_PREFIX
    return ok(
        _CHECK,
        f"no dead-letter topic is set for {_first_of(groups)}: brokers keep no copies of records that are rejected or "
        "given up. To keep them:",
        create_command(info.server, f"{prefix}{first}", _ENABLING),
        set_command(info.server, first, f"{DEAD_LETTER_TOPIC}={prefix}{first}"),
    )


async def judge_dead_letter_topic(
    router: Router, server: str, group: str, topic: str, brokers: Mapping[str, str | None]
) -> CheckResult:
    """Whether brokers would write the group's dead letters to it. `brokers`: their values of `BROKERS_DECIDE_BY`."""
    check = check_of(group)
    effect = "records are archived without a dead letter"
    settings = await _settings_of(router, topic) if has_prefix(topic, brokers) else None
    match dead_letter_flaw(topic, brokers, settings):
        case DeadLetterFlaw.NAME:
            prefix = brokers[PREFIX]
            return problem(
                check,
                f"its dead-letter topic is {topic}, but brokers only write to names that begin with {prefix!r}: "
                f"{effect}",
                set_command(server, group, f"{DEAD_LETTER_TOPIC}={prefix}{topic}"),
            )
        case DeadLetterFlaw.MISSING as missing:
            return problem(
                check,
                f"its dead-letter topic is {topic}, which {missing}: {effect}",
                create_command(server, topic, _ENABLING),
            )
        case DeadLetterFlaw.SHUT as shut:
            value = settings[GROUP_ENABLE] if settings else None
            return problem(
                check,
                f"its dead-letter topic is {topic}, which {shut} ({GROUP_ENABLE} is {value}): {effect}",
                topic_config_command(server, topic, _ENABLING),
            )
    created = ", which will be created with the first dead letter" if settings is None else ""
    return ok(check, f"dead letters go to {topic}{created}")


async def _settings_of(router: Router, topic: str) -> dict[str, str | None] | None:
    """None if the topic doesn't exist."""
    try:
        await router.metadata([topic])
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None
    found = await configs.describe(router, ConfigResource.TOPIC, topic, keys=[GROUP_ENABLE])
    return {GROUP_ENABLE: expected_row(found, "DescribeConfigs", f"{GROUP_ENABLE} of topic {topic}").value}
