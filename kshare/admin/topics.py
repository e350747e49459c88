"""Lists, creates and deletes topics, as far as share group users need it."""

from __future__ import annotations

from collections.abc import Mapping

from kshare.admin.results import TopicListing
from kshare.admin.routing import Router, response_error
from kshare.errors import BrokerError, ConfigError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateTopicsRequest, DeleteTopicsRequest
from kshare.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kshare.protocol.messages.delete_topics_request import DeleteTopicState

_BROKERS_DEFAULT = -1
_TIMEOUT_MS = 30_000
_NOT_AUTHORIZED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def list_topics(router: Router, *, with_internal: bool) -> list[TopicListing]:
    topics = [
        TopicListing(
            topic.name or "",
            topic.topic_id,
            len(topic.partitions),
            len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
            topic.is_internal,
        )
        for topic in (await router.metadata(None)).topics
    ]
    shown = (topic for topic in topics if with_internal or not topic.is_internal)
    return sorted(shown, key=lambda topic: topic.topic)


async def create_topic(
    router: Router,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    config: Mapping[str, str],
) -> None:
    for option, number in (("partitions", partitions), ("replication_factor", replication_factor)):
        if number is not None and number < 1:
            raise ConfigError(
                f"{option} must be 1 or more, not {number!r}; leave it out for the brokers' default"
            )
    topic = CreatableTopic(
        name,
        partitions or _BROKERS_DEFAULT,
        replication_factor or _BROKERS_DEFAULT,
        configs=[CreatableTopicConfig(key, str(value)) for key, value in config.items()],
    )
    await router.ask_any(
        CreateTopicsRequest([topic], _TIMEOUT_MS),
        lambda response: [
            response_error(row, f"creating topic {name}", Right("Create", "topic", name))
            for row in response.topics
        ],
        is_repeatable=False,
    )


async def ensure_topic(
    router: Router,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    config: Mapping[str, str],
) -> BrokerError | None:
    """Create the topic unless it exists.

    Without the right to create it, the refusal is returned. It may exist even so: brokers check permissions first.
    """
    try:
        await create_topic(router, name, partitions, replication_factor, config)
    except BrokerError as error:
        if error.code in _NOT_AUTHORIZED:
            return error
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    return None


async def delete_topic(router: Router, name: str) -> None:
    await router.ask_any(
        DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=_TIMEOUT_MS),
        lambda response: [
            response_error(row, f"deleting topic {name}", Right("Delete", "topic", name))
            for row in response.responses
        ],
        is_repeatable=False,
    )
