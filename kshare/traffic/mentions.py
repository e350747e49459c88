"""The errors, groups and topics that a message mentions.

Uses the schema tables of the generated classes. Which fields of a class to read is determined once, so records and
long lists without such fields are never walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kshare.protocol.message import Message
from kshare.protocol.spec import specs_of, struct_named

_ERRORS = {"errorCode", "acknowledgeErrorCode", "topicConfigErrorCode", "partitionErrorCode"}
_GROUPS = {"groupId", "groups", "groupIds", "groupsNames"}
_TOPIC_NAMES = {"topic", "topics", "topicName", "topicNames", "subscribedTopicNames"}
_TOPIC_IDS = {"topicId", "topicIds"}


@dataclass(slots=True)
class Mentions:
    errors: dict[int, int] = field(default_factory=dict)
    """How often each error code occurs."""
    groups: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    topic_ids: set[bytes] = field(default_factory=set)


class _Plan(NamedTuple):
    """Which attributes of a class to read."""

    errors: tuple[str, ...]
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    inner: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not any(self)


def mentions(*messages: Message | None) -> Mentions:
    found = Mentions()
    for message in messages:
        if message is not None:
            _walk(message, found)
    return found


def _walk(item: Any, found: Mentions) -> None:
    plan = _plan(type(item))
    for name in plan.errors:
        if code := getattr(item, name):
            found.errors[code] = found.errors.get(code, 0) + 1
    for name in plan.groups:
        found.groups.update(_texts(getattr(item, name)))
    for name in plan.topics:
        found.topics.update(_texts(getattr(item, name)))
    for name in plan.topic_ids:
        value = getattr(item, name)
        found.topic_ids.update([value] if isinstance(value, bytes) else value or ())
    for name in plan.inner:
        value = getattr(item, name)
        for inner in value if isinstance(value, list) else [value]:
            if inner is not None:
                _walk(inner, found)


def _texts(value: Any) -> Iterator[str]:
    for text in [value] if isinstance(value, str) else value or ():
        if isinstance(text, str) and text:
            yield text


_PLANS: dict[type[Any], _Plan] = {}


def _plan(cls: type[Any]) -> _Plan:
    plan = _PLANS.get(cls)
    if plan is None:
        plan = _PLANS[cls] = _make_plan(cls)
    return plan


def _make_plan(cls: type[Any]) -> _Plan:
    errors, groups, topics, topic_ids, inner = [], [], [], [], []
    for spec in specs_of(cls):
        struct = struct_named(cls, spec.element)
        if struct is not None:
            if not _plan(struct).is_empty:
                inner.append(spec.attribute)
        elif spec.json_name in _ERRORS:
            errors.append(spec.attribute)
        elif spec.json_name in _GROUPS:
            groups.append(spec.attribute)
        elif spec.json_name in _TOPIC_NAMES or (spec.json_name == "name" and "Topic" in cls.__name__):
            topics.append(spec.attribute)
        elif spec.json_name in _TOPIC_IDS:
            topic_ids.append(spec.attribute)
    return _Plan(tuple(errors), tuple(groups), tuple(topics), tuple(topic_ids), tuple(inner))
