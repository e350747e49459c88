"""Checks the dead-letter topics of groups. If a topic is unsuitable, brokers silently write no dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.cli.cluster.cluster_info import ClusterInfo
from kshare.cli.doctor.checks.group_settings import chosen_groups, set_command
from kshare.cli.terminal.check_result import CheckResult, ok, problem
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode

_SETTINGS = "errors.deadletterqueue."
_TOPIC = f"{_SETTINGS}topic.name"
_ENABLED = f"{_SETTINGS}group.enable"
_PREFIX = f"{_SETTINGS}topic.name.prefix"
_MAY_CREATE = f"{_SETTINGS}auto.create.topics.enable"


async def dead_letter_topics(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for group in await chosen_groups(info):
        settings = {one.name: one.value for one in await configs.group_config(info.router, group)}
        topic = settings.get(_TOPIC)
        if topic:
            yield await _judge(info, group, topic)


async def _judge(info: ClusterInfo, group: str, topic: str) -> CheckResult:
    check = f"group {group}"
    effect = "records are archived without a dead letter"
    brokers = await info.broker_settings(_PREFIX, _MAY_CREATE)
    prefix = brokers.get(_PREFIX) or ""
    if not topic.startswith(prefix):
        return problem(
            check,
            f"its dead-letter topic is {topic}, but brokers only write to names that begin with {prefix!r}: {effect}",
            set_command(info, group, f"{_TOPIC}={prefix}{topic}"),
        )
    try:
        await info.topics_of([topic])
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if brokers.get(_MAY_CREATE) == "true":
            return ok(check, f"dead letters go to {topic}, which will be created with the first one")
        return problem(
            check,
            f"its dead-letter topic is {topic}, which doesn't exist: {effect}",
            f"kafka-topics.sh --bootstrap-server {info.server} --create --topic {topic} --config {_ENABLED}=true",
        )
    (entry,) = await configs.describe(info.router, ConfigResource.TOPIC, topic, keys=[_ENABLED])
    if entry.value != "true":
        return problem(
            check,
            f"its dead-letter topic is {topic}, which accepts no dead letters ({_ENABLED} is {entry.value}): {effect}",
            f"kafka-configs.sh --bootstrap-server {info.server} --alter --entity-type topics --entity-name {topic} "
            f"--add-config {_ENABLED}=true",
        )
    return ok(check, f"dead letters go to {topic}")
