"""DeleteTopics v1-6, by name or by id, on any node.

v1: the first supported version.
v2: when a quota is exceeded, the response is sent before throttling.
v3: may return TOPIC_DELETION_DISABLED.
v4: flexible, with compact lengths and tagged fields.
v5: the response adds ErrorMessage.
v6: topics may be identified by id; the request adds Topics and drops TopicNames; the response adds TopicId.
"""

from __future__ import annotations

from collections import Counter

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from kshare.protocol.messages.delete_topics_request import DeleteTopicState
from kshare.protocol.messages.delete_topics_response import DeletableTopicResult

_DISABLED_SINCE = 3
_STATES_SINCE = 6


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    wanted = request.topics
    if call.version < _STATES_SINCE:
        wanted = [DeleteTopicState(name) for name in request.topic_names]
    if not call.broker.configs.is_on(Resource.BROKER, "", "delete.topic.enable"):
        is_known = call.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        disabled = RequestError(code, "Topic deletion is disabled.")
        return DeleteTopicsResponse(responses=[_refused(each, disabled) for each in wanted])
    named = Counter(_identity(each) for each in wanted)
    duplicate = RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
    return DeleteTopicsResponse(
        responses=[
            _delete(each, call) if named[identity] == 1 else _refused(each, duplicate)
            for identity, each in {_identity(each): each for each in wanted}.items()
        ]
    )


def _identity(wanted: DeleteTopicState) -> str | bytes:
    return wanted.topic_id if wanted.name is None else wanted.name


def _refused(wanted: DeleteTopicState, refusal: RequestError) -> DeletableTopicResult:
    return DeletableTopicResult(wanted.name, wanted.topic_id, refusal.code, refusal.message)


def _delete(wanted: DeleteTopicState, call: Call) -> DeletableTopicResult:
    by_id = wanted.name is None
    topic = call.broker.cluster.find(_identity(wanted))
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeletableTopicResult(wanted.name, wanted.topic_id, error)
    call.broker.cluster.delete_topic(topic)
    return DeletableTopicResult(topic.name, topic.id)
