"""Creates error responses from the request alone, for fault injection.

If a response has no error code of its own, the error is set for each of its partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshare.errors import ConfigError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    DeleteRecordsResponse,
    FindCoordinatorResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
    delete_records_response,
    find_coordinator_response,
    list_offsets_response,
    metadata_response,
    offset_for_leader_epoch_response,
    produce_response,
)


def check_error_response(api: type[Request[Any]]) -> None:
    """Raises ConfigError if we can't create error responses of this API."""
    if api.__name__ not in _MAKERS and not hasattr(api.RESPONSE(), "error_code"):
        raise ConfigError(
            f"{api.RESPONSE.__name__} has no single error field: use `change` to set the errors"
        )


def error_response(request: Any, error: ErrorCode) -> Message:
    """A response to `request` with `error` in each of its error fields."""
    check_error_response(type(request))
    make = _MAKERS.get(type(request).__name__)
    if make is not None:
        return make(request, error)
    response: Any = request.RESPONSE()
    response.error_code = error
    return response  # type: ignore[no-any-return]


def _produce(request: Any, error: ErrorCode) -> Message:
    make = produce_response.PartitionProduceResponse
    return ProduceResponse(
        [
            produce_response.TopicProduceResponse(
                topic.name, topic.topic_id, [make(each.index, error, -1) for each in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


def _list_offsets(request: Any, error: ErrorCode) -> Message:
    make = list_offsets_response.ListOffsetsPartitionResponse
    return ListOffsetsResponse(
        topics=[
            list_offsets_response.ListOffsetsTopicResponse(
                topic.name, [make(each.partition_index, error) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _metadata(request: Any, error: ErrorCode) -> Message:
    make = metadata_response.MetadataResponseTopic
    return MetadataResponse(topics=[make(error, each.name, each.topic_id) for each in request.topics or []])


def _find_coordinator(request: Any, error: ErrorCode) -> Message:
    make = find_coordinator_response.Coordinator
    if not request.coordinator_keys:  # as before v4
        return FindCoordinatorResponse(error_code=error, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[make(key, -1, "", -1, error) for key in request.coordinator_keys]
    )


def _delete_records(request: Any, error: ErrorCode) -> Message:
    make = delete_records_response.DeleteRecordsPartitionResult
    return DeleteRecordsResponse(
        topics=[
            delete_records_response.DeleteRecordsTopicResult(
                topic.name, [make(each.partition_index, -1, error) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _epochs(request: Any, error: ErrorCode) -> Message:
    make = offset_for_leader_epoch_response.EpochEndOffset
    return OffsetForLeaderEpochResponse(
        topics=[
            offset_for_leader_epoch_response.OffsetForLeaderTopicResult(
                topic.topic, [make(error, each.partition) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


_MAKERS: dict[str, Callable[[Any, ErrorCode], Message]] = {
    "ProduceRequest": _produce,
    "ListOffsetsRequest": _list_offsets,
    "MetadataRequest": _metadata,
    "FindCoordinatorRequest": _find_coordinator,
    "DeleteRecordsRequest": _delete_records,
    "OffsetForLeaderEpochRequest": _epochs,
}
