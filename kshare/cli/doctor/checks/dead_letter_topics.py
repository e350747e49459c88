"""Where a group's dead letters go. A topic that won't do is no error to brokers: letters are dropped without a word."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.admin import configs
from kshare.admin.configs import Resource
from kshare.cli.doctor.checks.cluster_info import Patient
from kshare.cli.doctor.checks.finding import Finding, ok, problem
from kshare.cli.doctor.checks.group_settings import chosen_groups, set_command
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode

_SETTINGS = "errors.deadletterqueue."
_TOPIC = f"{_SETTINGS}topic.name"
_ENABLED = f"{_SETTINGS}group.enable"
_PREFIX = f"{_SETTINGS}topic.name.prefix"
_MAY_CREATE = f"{_SETTINGS}auto.create.topics.enable"


async def dead_letter_topics(patient: Patient) -> AsyncIterator[Finding]:
    for group in await chosen_groups(patient):
        settings = {one.name: one.value for one in await configs.group_config(patient.router, group)}
        topic = settings.get(_TOPIC)
        if topic:
            yield await _judge(patient, group, topic)


async def _judge(patient: Patient, group: str, topic: str) -> Finding:
    check = f"group {group}"
    lost = "what it gives up is archived without a letter"
    brokers = await patient.broker_settings(_PREFIX, _MAY_CREATE)
    prefix = brokers.get(_PREFIX) or ""
    if not topic.startswith(prefix):
        return problem(
            check,
            f"its dead letters shall go to {topic}, and brokers only write to what begins with {prefix!r}: {lost}",
            set_command(patient, group, f"{_TOPIC}={prefix}{topic}"),
        )
    try:
        await patient.topics_of([topic])
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if brokers.get(_MAY_CREATE) == "true":
            return ok(check, f"dead letters go to {topic}, which will be made with the first of them")
        return problem(
            check,
            f"its dead letters shall go to {topic}, which isn't there: {lost}",
            f"kafka-topics.sh --bootstrap-server {patient.server} --create --topic {topic} --config {_ENABLED}=true",
        )
    (entry,) = await configs.describe(patient.router, Resource.TOPIC, topic, keys=[_ENABLED])
    if entry.value != "true":
        return problem(
            check,
            f"its dead letters shall go to {topic}, which doesn't take any ({_ENABLED} is {entry.value}): {lost}",
            f"kafka-configs.sh --bootstrap-server {patient.server} --alter --entity-type topics --entity-name {topic} "
            f"--add-config {_ENABLED}=true",
        )
    return ok(check, f"dead letters go to {topic}")
