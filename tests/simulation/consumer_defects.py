"""Defects to plant in consumers. Some are those of the storm of consumers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from anyio.lowlevel import checkpoint

from kshare.client.background import Background
from kshare.client.consumer import AsyncConsumer
from kshare.client.streams import Inbox
from kshare.engine.commits import Commits
from kshare.engine.lease_book import LeaseBook
from kshare.engine.lease_reports import LeaseReports
from kshare.protocol.record import Headers, Record
from kshare.state import lease
from kshare.state.acks import AckOutcome, PartitionAcks
from kshare.state.coverage import Coverage
from kshare.state.membership import Membership, MembershipState
from kshare.state.request_planner import RequestPlanner
from kshare.state.session import SentRequest, ShareSession
from tests.integration.consumer_storm import defects as storm
from tests.simulation.planting import Defect, nothing, replace


def leaving_is_tried_once() -> None:
    for name in ("on_response", "on_no_response"):
        _then_leave(name, getattr(Membership, name))


def _then_leave(name: str, original: Callable[..., Any]) -> None:
    def then_leave(self: Membership, *arguments: Any) -> Any:
        result = original(self, *arguments)
        if self.state is MembershipState.LEAVING:
            self.state = MembershipState.LEFT
        return result

    replace(Membership, name, then_leave)


def lost_responses_are_confirmed() -> None:
    on_outcomes = LeaseBook.on_outcomes

    def confirm(book: LeaseBook, outcomes: Iterable[AckOutcome]) -> None:
        on_outcomes(
            book,
            [
                outcome._replace(error=0, is_open=False) if outcome.is_open else outcome
                for outcome in outcomes
            ],
        )

    replace(LeaseBook, "on_outcomes", confirm)


def locks_count_from_arrival() -> None:
    acquire = LeaseBook.acquire

    def late(book: LeaseBook, topic: str, acks: Any, data: Any, lock_s: float, sent_at: float) -> None:
        acquire(book, topic, acks, data, lock_s, book.clock.now())

    replace(LeaseBook, "acquire", late)


def locks_never_run_out() -> None:
    replace(PartitionAcks, "expire", lambda acks, now: ([], []))
    replace(lease.Lease, "deadline", property(lambda _: float("inf"), nothing))


def epochs_outlive_errors() -> None:
    def reset(session: Any) -> None:
        session._in_session = frozenset()
        session.under_way = None

    replace(ShareSession, "reset", reset)


def what_is_cut_off_is_a_gap() -> None:
    original = Coverage.of

    def of(coverage: Any, first: int, last: int, **options: Any) -> Any:
        contents = original(coverage, first, last, **options)
        end = max((batch.last_offset for batch in coverage._read()), default=-1)
        cut = [span for span in contents.unverified if span[0] > end]
        rest = [span for span in contents.unverified if span[0] <= end]
        return contents._replace(gaps=[*contents.gaps, *cut], unverified=rest)

    replace(Coverage, "of", of)


def released_is_remembered_as_accepted() -> None:
    replace(lease, "_ACCEPTED_RUN", re.compile(rb"[\x01\x02\x11\x12]+"))


def closing_forgets_other_partitions() -> None:
    replace(LeaseBook, "release_rest", nothing)


def what_a_loop_has_left_is_kept() -> None:
    replace(Inbox, "abandon", nothing)


def closing_sends_nothing() -> None:
    def end(planner: Any, now: float) -> SentRequest:
        sent: SentRequest = planner._session.close({})
        return sent

    replace(RequestPlanner, "settle", lambda planner, now: None)
    replace(RequestPlanner, "end", end)


def fetches_do_not_wait() -> None:
    replace(RequestPlanner, "_wait_ms", lambda planner, demand, now, **options: 0)


def closing_does_not_wait() -> None:
    async def join(background: Background) -> None:
        await checkpoint()

    replace(Background, "join", join)


def confirmations_are_not_told() -> None:
    settled = LeaseReports.settled

    def settled_with_an_error(reports: LeaseReports, outcome: AckOutcome, error: Any) -> None:
        if error is not None:
            settled(reports, outcome, error)

    replace(LeaseReports, "settled", settled_with_an_error)


def refusals_are_not_told() -> None:
    settled = LeaseReports.settled

    def settled_without_error(reports: LeaseReports, outcome: AckOutcome, error: Any) -> None:
        if error is None:
            settled(reports, outcome, error)

    replace(LeaseReports, "settled", settled_without_error)


def losses_are_not_told() -> None:
    replace(LeaseReports, "lost", nothing)


def commits_confirm_what_is_open() -> None:
    on_outcome = Commits.on_outcome

    def confirm(commits: Commits, outcome: AckOutcome, error: Any) -> None:
        on_outcome(commits, outcome, None if outcome.is_open else error)

    replace(Commits, "on_outcome", confirm)


def rejections_are_released() -> None:
    decide = lease.Lease.decide

    def release(held: lease.Lease, offset: int, kind: int) -> bool:
        return decide(held, offset, lease.RELEASE if kind == lease.REJECT else kind)

    replace(lease.Lease, "decide", release)


def pauses_have_no_end() -> None:
    replace(AsyncConsumer, "resume", nothing)


def empty_headers_are_none() -> None:
    read: Callable[[Record], Headers] = vars(Record)["headers"].fget

    def without_empty(self: Record) -> Headers:
        return tuple((name, value or None) for name, value in read(self))

    replace(Record, "headers", property(without_empty))


def timestamps_are_whole_seconds() -> None:
    read = Record.read_timestamp
    replace(Record, "read_timestamp", lambda self: read(self) // 1000 * 1000)


def missing_keys_are_empty() -> None:
    read: Callable[[Record], bytes | None] = vars(Record)["key"].fget
    replace(Record, "key", property(lambda self: read(self) or b""))


_OF_STORM: Iterable[tuple[Callable[[], None], str, int]] = (
    (storm.releases_are_free, "gives damaged records back without a pause", 18),
    (storm.corrupt_is_a_gap, "acknowledges damaged batches as gaps", 18),
    (storm.corrupt_is_accepted, "accepts damaged batches", 18),
    (storm.released_is_accepted, "accepts what its user has released", 15),
    (storm.cancelled_is_accepted, "accepts the current record of a loop that is cancelled", 143),
    (storm.refused_is_confirmed, "reports refused acknowledgements as confirmed", 42),
    (storm.neighbour_is_accepted, "accepts the next record instead", 15),
    (storm.commit_is_hasty, "returns from `commit` before anything is confirmed", 1),
    (storm.checksums_are_ignored, "hands out damaged batches", 113),
)
_OWN: Iterable[tuple[Callable[[], None], str, str, int]] = (
    (leaving_is_tried_once, "still a member", "doesn't try again to leave its group", 12),
    (locks_count_from_arrival, "handed late", "counts locks from the response, not from the request", 492),
    (locks_never_run_out, "handed late", "doesn't look whether locks have run out", 1),
    (epochs_outlive_errors, "wrong epoch", "goes on with the epoch of a session that has ended", 2),
    (what_is_cut_off_is_a_gap, "lost", "acknowledges as a gap what a response lacks at its end", 36),
    (released_is_remembered_as_accepted, "accepted unseen", "takes released records for accepted ones", 363),
    (
        closing_forgets_other_partitions,
        "still locked",
        "releases only partitions of its session at the end",
        1,
    ),
    (what_a_loop_has_left_is_kept, "kept", "keeps and renews the record of a loop that was left", 4),
    (closing_sends_nothing, "still locked", "ends its session without sending what is decided", 39),
    (fetches_do_not_wait, "busy loop", "lets brokers respond to fetches at once, and asks again", 42),
    (closing_does_not_wait, "left behind", "returns from `close` before it has ended", 15),
    (lost_responses_are_confirmed, "confirmed falsely", "takes a lost response for a confirmation", 20),
    (confirmations_are_not_told, "not told", "calls `on_settled` only for refusals", 85),
    (refusals_are_not_told, "without outcome", "calls `on_settled` only for confirmations", 7),
    (losses_are_not_told, "loss not told", "says nothing in `commit` of records that were lost in hand", 57),
    (commits_confirm_what_is_open, "confirmed falsely", "confirms in `commit` what got no response", 7),
    (rejections_are_released, "forgotten", "releases what its user has rejected", 18),
    (pauses_have_no_end, "left", "fetches nothing after `resume`", 15),
    (empty_headers_are_none, "wrong attributes", "reads empty headers as ones without a value", 15),
    (timestamps_are_whole_seconds, "wrong attributes", "drops the milliseconds of timestamps", 15),
    (missing_keys_are_empty, "wrong attributes", "reads missing keys as empty ones", 1),
)
DEFECTS = [
    *(
        Defect(plant, "consumers", storm.DEFECTS[plant.__name__][1], what, seed)
        for plant, what, seed in _OF_STORM
    ),
    *(Defect(plant, "consumers", finding, what, seed) for plant, finding, what, seed in _OWN),
]
