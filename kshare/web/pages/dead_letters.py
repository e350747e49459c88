"""Dead letters: listed, read and explained; redriven and dropped in jobs, after a dry run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kshare.admin.record_search import SearchLimits, search_records
from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import DeadLetter, meaning, read
from kshare.dead_letters.drop import DropRequest, plan_drop
from kshare.dead_letters.letter_states import LetterStates, readable_states
from kshare.dead_letters.moves import Moves
from kshare.dead_letters.original_records import Missing, OriginalRecords
from kshare.dead_letters.other_readers import other_readers, sentences
from kshare.dead_letters.overview import LetterCounter, LetterCounts, overview
from kshare.dead_letters.read import accepts_dead_letters, bounds, require_letters
from kshare.dead_letters.redrive import plan_redrive
from kshare.dead_letters.unreadable import Unreadable
from kshare.errors import KshareError
from kshare.monitor.side_by_side import side_by_side
from kshare.monitor.tracking_groups import topics_read
from kshare.protocol.record import Record
from kshare.web.console import Console, origin_of, text_of, user_of
from kshare.web.content import LIST_LIMIT, PAGE_LIMIT, Content, content, visible
from kshare.web.fields import whole_number
from kshare.web.jobs import Job
from kshare.web.letter_choice import FILTERS, MOST_CHOSEN, LetterChoice
from kshare.web.letter_job import redrive_request, run_letter_job
from kshare.web.letter_view import LetterView, letter_view
from kshare.web.pages.records import continued, find_record, partition_count
from kshare.web.paging import chosen, page_of
from kshare.web.rendering import query

_TOPICS_ON_PAGE, _OUTCOMES_ON_PAGE, _HEADERS_ON_PAGE = 50, 100, 500
_COUNTING_S, _PLANNING_S = 4.0, 8.0
_REQUEST_S = 1.0
"""How long a broker may take for one request when topics are counted. A few are counted at once, so ten without a
response would hide all others."""
_ACTIONS = ("redrive", "drop")


@dataclass(slots=True)
class _Plan:
    rows: list[LetterView] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    """Of those that would be redriven or dropped."""
    written: list[tuple[str, str | None]] = field(default_factory=list)
    """Topics that records would be written to, and the groups of their dead letters."""
    is_complete: bool = False
    unreadable: Unreadable = field(default_factory=Unreadable)

    @property
    def targets(self) -> list[tuple[str, int]]:
        """How many records would be written to each topic."""
        return sorted(Counter(topic for topic, _ in self.written).items())

    async def fill(self, router: Router, action: str, choice: LetterChoice) -> None:
        async for row, is_possible, written in _planned(router, action, choice, self.unreadable):
            if len(self.rows) >= MOST_CHOSEN:
                return
            self.rows.append(row)
            if is_possible:
                self.places.append((row.partition, row.offset))
            if written is not None:
                self.written.append(written)
        self.is_complete = True


def routes(console: Console) -> list[Route]:
    pages = _Pages(console)
    return [
        Route("/dead-letters", pages.topics),
        Route("/dead-letters/topic", pages.letters),
        Route("/dead-letters/letter", pages.letter),
        Route("/dead-letters/plan", pages.plan),
        Route("/dead-letters/start", pages.start, methods=["POST"]),
        Route("/dead-letters/job", pages.show_job),
        Route("/dead-letters/stop", pages.stop_job, methods=["POST"]),
    ]


class _Pages:
    def __init__(self, console: Console) -> None:
        self._console = console

    async def topics(self, request: Request) -> Response:
        async with self._console.router() as router:
            page = page_of(
                await overview(router, _named_topics(self._console)),
                request.query_params.get("page"),
                _TOPICS_ON_PAGE,
            )
            counts = await _counted(router, [row.topic for row in page.rows])
        return self._render(
            request, "dead_letters.jinja", page=page, counts=counts, jobs=self._console.jobs.all
        )

    async def letters(self, request: Request) -> Response:
        wanted = request.query_params
        choice, show = LetterChoice.of(wanted, ()), chosen(wanted, "show", ("open", "all"))
        moves = Moves()
        async with self._console.router(reads_records=True) as router:
            await partition_count(router, choice.topic)
            firsts, ends = await bounds(router, choice.topic)
            states = await _states(router, choice)
            open_only = states if show == "open" else None
            # If only open letters are wanted: from where on there may be some.
            starts = open_only.starts if open_only else {}
            spans = continued(
                {
                    number: (max(first, starts.get(number, 0)), ends[name, number])
                    for (name, number), first in firsts.items()
                },
                wanted,
            )

            def is_wanted(partition: int, record: Record) -> bool:
                letter = read(choice.topic, partition, record)
                moves.note(letter)
                return choice.selection.wants(letter) and not (open_only and open_only.has_settled(letter))

            search = await search_records(router, choice.topic, spans, is_wanted, SearchLimits())
            found = [read(choice.topic, record.partition, record.record) for record in search.found]
            is_ordinary = await self._is_ordinary(router, choice.topic, found)
        rows = [letter_view(letter, states, LIST_LIMIT, moves=moves) for letter in found]
        open_letters = [letter for letter, row in zip(found, rows, strict=True) if row.is_open]
        return self._render(
            request,
            "dead_letters_topic.jinja",
            choice=choice,
            rows=rows,
            search=search,
            show=show,
            filters=FILTERS,
            is_tracked=states is not None,
            is_ordinary=is_ordinary,
            has_open=bool(open_letters),
            readers=self._readers(_written(choice, open_letters)),
        )

    async def letter(self, request: Request) -> Response:
        wanted = request.query_params
        topic = wanted.get("topic", "")
        partition, offset = (whole_number(wanted.get(name, ""), name) for name in ("partition", "offset"))
        if partition is None or offset is None:
            raise HTTPException(400, "partition and offset are missing")
        choice = LetterChoice.of(wanted, [f"{partition}:{offset}"])
        async with self._console.router(reads_records=True) as router:
            await partition_count(router, topic, partition)
            found = read(topic, partition, (await find_record(router, topic, partition, offset)).record)
            states = await _states(router, choice)
            original = await OriginalRecords(router).record(found)
            is_ordinary = await self._is_ordinary(router, topic, [found])
        return self._render(
            request,
            "dead_letters_letter.jinja",
            choice=choice,
            row=letter_view(found, states, PAGE_LIMIT),
            context=[(name, _shown(value), meaning(name)) for name, value in found.context.items()],
            headers=[(visible(name), _shown(value)) for name, value in found.own_headers[:_HEADERS_ON_PAGE]],
            more_headers=max(0, len(found.own_headers) - _HEADERS_ON_PAGE) + found.more_headers,
            has_copy=found.has_copy,
            is_ordinary=is_ordinary,
            readers=self._readers(_written(choice, [found])),
            missing=original.reason if isinstance(original, Missing) else None,
        )

    async def plan(self, request: Request) -> Response:
        """A dry run, which changes nothing."""
        wanted = request.query_params
        action, _, which = wanted.get("do", "").partition("-")
        _require_action(action)
        chosen_letters = wanted.getlist("letter")
        if which == "chosen" and not chosen_letters:
            raise HTTPException(400, "no dead letter was chosen: go back, and tick some")
        choice = LetterChoice.of(wanted, chosen_letters if which == "chosen" else ())
        planned = _Plan()
        async with self._console.router(reads_records=True) as router:
            await _check(router, choice)
            with anyio.move_on_after(_PLANNING_S):
                await planned.fill(router, action, choice)
        return self._render(
            request,
            "dead_letters_plan.jinja",
            action=action,
            choice=choice,
            plan=planned,
            readers=self._readers(planned.written),
            letters=" ".join(f"{partition}:{offset}" for partition, offset in planned.places),
        )

    async def start(self, request: Request) -> Response:
        form = await self._console.form(request)
        action = text_of(form, "action")
        _require_action(action)
        texts = {name: text_of(form, name) for name in ("topic", "to", "tracker", *FILTERS)}
        choice = LetterChoice.of(texts, text_of(form, "letters").split())
        async with self._console.router() as router:
            await _check(router, choice)
        job = await self._console.jobs.start(
            user_of(request).name,
            action,
            choice.topic,
            choice.tracker,
            choice.text,
            partial(run_letter_job, self._console.config, action, choice),
            letters=choice.text,
            to=choice.target or None,
            **origin_of(request),
        )
        return _to_job(job)

    async def show_job(self, request: Request) -> Response:
        job = self._console.jobs.find(request.query_params.get("id", ""))
        page = page_of(job.outcomes, request.query_params.get("page"), _OUTCOMES_ON_PAGE)
        return self._console.render(request, "dead_letters_job.jinja", job=job, page=page)

    async def stop_job(self, request: Request) -> Response:
        form = await self._console.form(request)
        job = self._console.jobs.find(text_of(form, "id"))
        async with self._console.change(request, "stop job", job.id):
            if job.scope is not None:
                job.scope.cancel()
        return _to_job(job)

    def _render(self, request: Request, template: str, **values: Any) -> Response:
        """A page that reads the cluster, so it isn't reloaded automatically."""
        return self._console.render(request, template, is_live=False, **values)

    def _readers(self, written: Iterable[tuple[str, str | None]]) -> list[str]:
        """Who else gets the records of a redrive; empty before the first reading."""
        snapshot = self._console.watcher.view.snapshot
        return [*sentences(other_readers(topics_read(snapshot), written))] if snapshot else []

    async def _is_ordinary(self, router: Router, topic: str, found: Sequence[DeadLetter]) -> bool:
        """Whether this is another topic, whose records aren't to be dropped: it accepts no dead letters, and has
        none."""
        is_named = topic in _named_topics(self._console)
        has_letters = not found or any(letter.is_dead_letter for letter in found) or is_named
        return not has_letters and not await accepts_dead_letters(router, topic)


def _require_action(action: str) -> None:
    if action not in _ACTIONS:
        raise HTTPException(400, f"dead letters can be redriven or dropped: {action!r} is neither")


def _to_job(job: Job) -> Response:
    return RedirectResponse("/dead-letters/job" + query({"id": job.id}), 303)


def _shown(value: bytes | None) -> Content | None:
    return None if value is None else content(value, "auto", LIST_LIMIT)


async def _counted(router: Router, topics: Sequence[str]) -> dict[str, LetterCounts]:
    """Of those for which brokers responded in time."""
    counts: dict[str, LetterCounts] = {}
    counter = LetterCounter(Router(router.pool, _REQUEST_S))

    async def count(topic: str) -> None:
        with suppress(KshareError):  # also of a topic that was deleted meanwhile: the others are shown
            counts[topic] = await counter.count(topic)

    with anyio.move_on_after(_COUNTING_S):
        await side_by_side(count, topics)
    return counts


def _named_topics(console: Console) -> dict[str, list[str]]:
    """Dead-letter topics, with the groups whose config names them, or whose members write to them."""
    named: dict[str, list[str]] = defaultdict(list)
    view = console.watcher.view
    for group in view.snapshot.groups if view.snapshot else ():
        topic = group.settings.dead_letter_topic or view.dead_letters_by_members.get(group.group)
        if topic:
            named[topic].append(group.group)
    return named


def _written(choice: LetterChoice, letters: Iterable[DeadLetter]) -> Iterator[tuple[str, str | None]]:
    request = redrive_request(choice)
    for letter in letters:
        if isinstance(topic := request.destination(letter), str):
            yield topic, letter.group


async def _states(router: Router, choice: LetterChoice) -> LetterStates | None:
    """None if we may not read which dead letters were redriven or dropped."""
    return await readable_states(router, choice.topic, choice.tracker, *await bounds(router, choice.topic))


async def _planned(
    router: Router, action: str, choice: LetterChoice, unreadable: Unreadable
) -> AsyncIterator[tuple[LetterView, bool, tuple[str, str | None] | None]]:
    """Each letter, whether it would be redriven or dropped, and the topic and group of a record that is written."""
    if action == "drop":
        dropping = DropRequest(choice.selection, None)
        async for planned in plan_drop(router, choice.topic, choice.tracker, dropping, unreadable):
            note = "a duplicate" if planned.is_duplicate else ""
            yield letter_view(planned.letter, None, LIST_LIMIT, note), True, None
        return
    request = redrive_request(choice)
    async for redrive in plan_redrive(router, choice.topic, choice.tracker, request, unreadable):
        target = "nowhere: a duplicate, which is settled" if redrive.is_duplicate else redrive.target or ""
        row = letter_view(redrive.letter, None, LIST_LIMIT, target, redrive.reason or "")
        written = (redrive.written_to, redrive.letter.group) if redrive.written_to else None
        yield row, redrive.reason is None, written


async def _check(router: Router, choice: LetterChoice) -> None:
    """Raises HTTPException or ConfigError if a topic or a chosen letter doesn't exist."""
    if choice.target == choice.topic:
        raise HTTPException(400, f"{choice.target} is the dead-letter topic itself: name another topic")
    await partition_count(router, choice.topic)
    if choice.target:
        await partition_count(router, choice.target)
    if choice.places:
        require_letters(choice.topic, choice.selection, *await bounds(router, choice.topic))
