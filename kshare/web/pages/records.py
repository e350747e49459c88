"""Records of topics, read without a group, so that nothing is acquired; and where each stands for the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.record_search import FoundRecord, SearchLimits, search_records
from kshare.admin.routing import Router
from kshare.admin.topics import list_topics
from kshare.errors import BrokerError, KshareError
from kshare.monitor.picture import record_standing
from kshare.monitor.snapshot import GroupReading, PartitionReading
from kshare.protocol.error_codes import ErrorCode
from kshare.web.console import Console
from kshare.web.content import LIST_LIMIT, PAGE_LIMIT, VIEWS, Content, content, visible
from kshare.web.fields import milliseconds, place, whole_number
from kshare.web.paging import chosen, page_of
from kshare.web.record_filter import RecordFilter
from kshare.wording import iso_time

_TOPICS_ON_PAGE = 50
_NEWEST = 20
_MOST_NEWEST = 5_000
_HEADERS_IN_LIST, _HEADERS_ON_PAGE = 20, 500
_STARTS = {
    "newest": "newest per partition",
    "earliest": "earliest",
    "offset": "offset",
    "time": "time",
}
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record as it is shown."""

    partition: int
    offset: int
    written: str
    key: Content | None
    value: Content | None
    headers: list[tuple[str, Content | None]]
    more_headers: int
    standing: str | None
    """Where it stands for the group that was chosen."""


def routes(console: Console) -> list[Route]:
    decoder = console.decoder

    async def topics(request: Request) -> Response:
        wanted = request.query_params
        has_internal = wanted.get("internal") == "1"
        part = wanted.get("q", "").casefold()
        held, problem = {}, None
        async with console.router() as router:
            found = [
                topic
                for topic in await list_topics(router, with_internal=has_internal)
                if part in topic.topic.casefold() and (has_internal or not topic.topic.startswith("__"))
            ]
            page = page_of(found, wanted.get("page"), _TOPICS_ON_PAGE)
            try:
                held = await _held(router, {row.topic: row.partitions for row in page.rows})
            except KshareError as error:
                problem = str(error)
        return console.render(
            request,
            "records.jinja",
            page=page,
            held=held,
            problem=problem,
            has_internal=has_internal,
            is_live=False,
        )

    async def records(request: Request) -> Response:
        wanted = request.query_params
        topic, view = wanted.get("topic", ""), chosen(wanted, "view", list(VIEWS))
        group = wanted.get("group", "")
        search, refused = None, None
        async with console.router(reads_records=True) as router:
            count = await partition_count(router, topic)
            try:
                criteria = RecordFilter.of(wanted)
                spans = await _spans(router, topic, count, wanted)
            except HTTPException as error:
                if error.status_code != 400:
                    raise
                refused = error.detail
            else:
                search = await search_records(
                    router, topic, spans, lambda _, record: criteria.wants(record), SearchLimits()
                )
        deadline = decoder.page_deadline()
        found = search.found if search else ()
        rows = [await shown(record, topic, view, LIST_LIMIT, group, deadline) for record in found]
        return console.render(
            request,
            "records_topic.jinja",
            status=400 if refused else 200,
            refused=refused,
            topic=topic,
            partitions=count,
            rows=rows,
            search=search,
            shown_as=view,
            views=VIEWS,
            starts=_STARTS,
            groups=[reader.group for reader, _ in readings_of(topic, 0)],
            group=group,
            registry_problem=decoder.problem if view == "registry" else None,
            is_live=False,
        )

    async def record(request: Request) -> Response:
        wanted = request.query_params
        topic, view = wanted.get("topic", ""), chosen(wanted, "view", list(VIEWS))
        partition, offset = _required(wanted, "partition"), _required(wanted, "offset")
        async with console.router(reads_records=True) as router:
            await partition_count(router, topic, partition)
            found = await find_record(router, topic, partition, offset)
        return console.render(
            request,
            "records_record.jinja",
            topic=topic,
            row=await shown(found, topic, view, PAGE_LIMIT, "", decoder.page_deadline()),
            shown_as=view,
            views=VIEWS,
            standings=[
                (reader.group, _standing(reading, offset), _is_pinning(reader, reading, offset))
                for reader, reading in readings_of(topic, partition)
            ],
            registry_problem=decoder.problem if view == "registry" else None,
            is_live=False,
        )

    async def shown(
        found: FoundRecord, topic: str, view: str, limit: int, group: str, deadline: float
    ) -> RecordView:
        one = found.record
        most = _HEADERS_IN_LIST if limit == LIST_LIMIT else _HEADERS_ON_PAGE
        known = readings_of(topic, found.partition, group) if group else ()
        reading = next((reading for _, reading in known), None)
        return RecordView(
            found.partition,
            one.offset,
            iso_time(one.timestamp),
            await decoded(one.key, one.key_size, topic, "key", view, limit, deadline),
            await decoded(one.value, one.value_size, topic, "value", view, limit, deadline),
            [
                (visible(name), None if value is None else content(bytes(value), "auto", LIST_LIMIT))
                for name, value in one.headers[:most]
            ],
            max(0, one.header_count - most),
            _standing(reading, one.offset) if group else None,
        )

    async def decoded(
        data: bytes | None, size: int, topic: str, part: str, view: str, limit: int, deadline: float
    ) -> Content | None:
        if data is None:
            return None
        if view == "registry" and decoder.problem is None:
            shown = await decoder.content(data, topic, part, limit, deadline)
        else:
            shown = content(data, "auto" if view == "registry" else view, limit)
        return shown if size == len(data) else replace(shown, size=size, is_cut=True)

    def readings_of(
        topic: str, partition: int, only: str = ""
    ) -> Iterator[tuple[GroupReading, PartitionReading | None]]:
        """Groups that read the topic, with what is known of a partition of it; or one of them."""
        snapshot = console.watcher.view.snapshot
        for group in snapshot.groups if snapshot else ():
            if only in ("", group.group):
                found = [reading for reading in group.partitions if reading.topic == topic]
                if found:
                    yield group, next((row for row in found if row.partition == partition), None)

    return [
        Route("/records", topics),
        Route("/records/topic", records),
        Route("/records/record", record),
    ]


def _standing(reading: PartitionReading | None, offset: int) -> str:
    if reading is None:
        return "unknown: the group doesn't read this partition"
    return record_standing(reading, offset)


def _is_pinning(group: GroupReading, reading: PartitionReading | None, offset: int) -> bool:
    """Whether nothing new of the partition is delivered to the group until this record is settled."""
    progress = reading.progress if reading else None
    return bool(group.members and progress and progress.is_window_full and progress.start_offset == offset)


async def partition_count(router: Router, topic: str, partition: int = 0) -> int:
    """Raises HTTPException 404 if the topic or the partition doesn't exist."""
    try:
        count = len((await router.metadata([topic])).topics[0].partitions)
    except BrokerError as error:
        if error.code in _UNKNOWN:
            raise HTTPException(404, f"there is no topic {topic!r}") from None
        raise
    if partition >= count:
        raise HTTPException(404, f"topic {topic} has no partition {partition}")
    return count


async def find_record(router: Router, topic: str, partition: int, offset: int) -> FoundRecord:
    """Raises HTTPException 404 if the record doesn't exist: at once, if its offset is outside the log."""
    where = (topic, partition)
    first = (await log_offsets(router, [where], EARLIEST))[where]
    end = (await log_offsets(router, [where], LATEST, is_committed_only=True))[where]
    if offset < first:
        raise HTTPException(
            404,
            f"there is no record {topic}[{partition}]@{offset}: it was removed: the log begins at offset {first}",
        )
    if offset >= end:
        raise HTTPException(
            404,
            f"there is no record {topic}[{partition}]@{offset}: what can be read of the log ends before offset {end}",
        )
    search = await search_records(
        router,
        topic,
        {partition: (offset, offset + 1)},
        lambda _, record: True,
        SearchLimits(found=1),
    )
    if not search.found:
        why = "; ".join(search.problems) or "it was removed by compaction, or it isn't for users"
        raise HTTPException(404, f"there is no record {topic}[{partition}]@{offset}: {why}")
    return search.found[0]


async def _held(router: Router, topics: Mapping[str, int]) -> dict[str, int]:
    """How many offsets each topic holds."""
    where = [(topic, number) for topic, count in topics.items() for number in range(count)]
    if not where:
        return {}
    firsts, ends = await log_offsets(router, where, EARLIEST), await log_offsets(router, where, LATEST)
    held = dict.fromkeys(topics, 0)
    for place_, end in ends.items():
        held[place_[0]] += max(0, end - firsts[place_])
    return held


async def _spans(
    router: Router, topic: str, count: int, wanted: Mapping[str, str]
) -> dict[int, tuple[int, int]]:
    """The first offset and the end of each partition that is searched."""
    only = whole_number(wanted.get("partition", ""), "partition")
    if only is not None and only >= count:
        raise HTTPException(404, f"topic {topic} has no partition {only}")
    where = [(topic, number) for number in (range(count) if only is None else [only])]
    firsts = await log_offsets(router, where, EARLIEST)
    ends = await log_offsets(router, where, LATEST, is_committed_only=True)
    starts = await _starts(router, firsts, ends, wanted)
    spans = {at[1]: (min(max(starts[at], firsts[at]), ends[at]), ends[at]) for at in where}
    return continued(spans, wanted)


def continued(spans: dict[int, tuple[int, int]], wanted: Mapping[str, str]) -> dict[int, tuple[int, int]]:
    """What is left to search from the place `at` on, where the page before has ended."""
    if not wanted.get("at"):
        return spans
    partition, offset = place(wanted["at"], "at")
    return {
        number: (max(first, offset) if number == partition else first, end)
        for number, (first, end) in spans.items()
        if number >= partition
    }


async def _starts(
    router: Router,
    firsts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    wanted: Mapping[str, str],
) -> Mapping[tuple[str, int], int]:
    given = wanted.get("from", "")
    match chosen(wanted, "start", list(_STARTS)):
        case "newest":
            newest = min(whole_number(given, "how many") or _NEWEST, _MOST_NEWEST)
            return {where: end - newest for where, end in ends.items()}
        case "offset":
            offset = whole_number(given, "offset")
            if offset is None:
                raise HTTPException(400, "an offset is missing: write it into the field beside the start")
            return dict.fromkeys(firsts, offset)
        case "time":
            time = milliseconds(given, "time")
            if time is None:
                raise HTTPException(400, "a time is missing: write it into the field beside the start")
            found = await log_offsets(router, firsts, max(0, time))
            return {where: ends[where] if offset < 0 else offset for where, offset in found.items()}
    return firsts


def _required(wanted: Mapping[str, str], name: str) -> int:
    number = whole_number(wanted.get(name, ""), name)
    if number is None:
        raise HTTPException(400, f"{name} is missing")
    return number
