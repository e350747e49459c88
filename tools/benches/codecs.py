"""Compares our codec with kio's Rust reader and kafka-python's generic codec, for the two largest share messages.

A ShareFetch response of 100 partitions with 20 acquired ranges each, and a ShareAcknowledge request of 1,000 ranges.
kafka-python has no share messages, so its codec gets our schemas, and all three process the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import kio.schema.share_acknowledge.v1.request as kio_acknowledge
import kio.schema.share_fetch.v1.response as kio_fetch
from kafka.protocol.api_message import ApiMessage
from kio.serial import entity_reader, entity_writer

import schemas
from kshare.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from tests.helpers.uncompiled import from_source
from tools.benches.study import TIME, Contest, Figure, Study, Trial, Wishes, timed

ROUNDS = 9
_TOPIC = bytes(range(16))


def fetch_response(partitions: int = 100, ranges: int = 20) -> ShareFetchResponse:
    rows = [
        PartitionData(
            partition_index=p,
            records=b"",
            acquired_records=[AcquiredRecords(1000 * r, 1000 * r + 499, 1) for r in range(ranges)],
        )
        for p in range(partitions)
    ]
    topic = ShareFetchableTopicResponse(topic_id=_TOPIC, partitions=rows)
    return ShareFetchResponse(acquisition_lock_timeout_ms=30000, responses=[topic])


def acknowledge_request(ranges: int = 1000) -> ShareAcknowledgeRequest:
    batches = [AcknowledgementBatch(1000 * r, 1000 * r + 499, b"\x01") for r in range(ranges)]
    topic = AcknowledgeTopic(topic_id=_TOPIC, partitions=[AcknowledgePartition(0, batches)])
    return ShareAcknowledgeRequest(
        group_id="orders", member_id="x" * 22, share_session_epoch=7, topics=[topic]
    )


class _Generic:
    """kafka-python's codec with our schemas: it creates message classes from JSON at run time."""

    def __init__(self, name: str) -> None:
        self.cls = type(ApiMessage)(name, (ApiMessage,), {}, load_json=schemas)

    def decode(self, data: bytes, version: int) -> Any:
        value = self.cls.decode(data, version=version)
        value._header = None  # its encoder needs one, but its decoder doesn't set it
        return value


def study(wishes: Wishes) -> Study:
    trials: dict[str, Trial] = {}
    contests: list[Contest] = []
    for title, message, kio_class in (
        ("ShareFetch response", fetch_response(), kio_fetch.ShareFetchResponse),
        ("ShareAcknowledge request", acknowledge_request(), kio_acknowledge.ShareAcknowledgeRequest),
    ):
        for name, case in _contenders(message, kio_class).items():
            trials[f"{name}, {title}"] = timed(_counted(case))
        for verb in ("decode", "encode"):
            for ours, peer in (("kshare", "kio"), ("kshare", "kafka-python"), ("kshare uncompiled", "kio")):
                first, second = (f"{contender} {verb}, {title}" for contender in (ours, peer))
                contests.append(Contest(TIME, first, second, f"codecs {title} {verb}: {ours} / {peer}"))
    return Study("codecs", [], [Figure(TIME, "nanoseconds a message", form=",.1f")], trials, contests)


def _contenders(message: Any, kio_class: type[Any]) -> dict[str, Callable[[], object]]:
    cls, data = type(message), message.encode(1)
    kio_read, kio_write = entity_reader(kio_class), entity_writer(kio_class)
    kio_value, _ = kio_read(data, 0)
    generic = _Generic(cls.NAME)
    generic_value = generic.decode(data, 1)
    if _kio_encode(kio_write, kio_value) != data or generic_value.encode(version=1) != data:
        raise AssertionError(f"{cls.NAME}: the contenders disagree about the bytes")
    plain = getattr(from_source(cls.__module__)[cls.__module__], cls.__name__)
    plain_value = plain.decode(data, 1)
    return {
        "kshare uncompiled decode": lambda: plain.decode(data, 1),
        "kshare uncompiled encode": lambda: plain_value.encode(1),
        "kshare decode": lambda: cls.decode(data, 1),
        "kio decode": lambda: kio_read(data, 0),
        "kafka-python decode": lambda: generic.decode(data, 1),
        "kshare encode": lambda: message.encode(1),
        "kio encode": lambda: _kio_encode(kio_write, kio_value),
        "kafka-python encode": lambda: generic_value.encode(version=1),
    }


def _kio_encode(write: Any, value: Any) -> bytes:
    out = io.BytesIO()
    write(out, value)
    return out.getvalue()


def _counted(case: Callable[[], object]) -> Callable[[], int]:
    def run() -> int:
        case()
        return 1

    return run
