"""What a session requests next: scripts of events, each `>` followed by the expected request or wait."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.state.acks import PartitionAcks
from kshare.state.fetch_size import MIN_FETCH_BYTES
from kshare.state.lease import (
    ACCEPT,
    GAP,
    HELD,
    REJECT,
    RELEASE,
    RENEW,
    Lease,
    TopicIdPartition,
    UndecidedCounter,
)
from kshare.state.request_planner import (
    IDLE_WAIT_MS,
    LINGER_S,
    MAX_IDLE_S,
    Demand,
    NextCheck,
    RequestPlanner,
)
from kshare.state.request_rules import REQUEST_RULES
from kshare.state.session import SentRequest, ShareSession

TOPIC = b"t" * 16
KINDS = {"gap": GAP, "accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
WORDS = {kind: word for word, kind in KINDS.items()}


class Wish(NamedTuple):
    """A constant `HolderDemand`, and the `Demand` around it."""

    wants_more: bool = True
    records: int = 100
    size: int = 1 << 30
    brokers: int = 1
    undecided: int = 0
    refill_at: int = 10
    is_user_waiting: bool = False
    wants_only_ready: bool = False
    is_confirming: bool = False
    has_committed: bool = False
    rate: float = 0.0
    handed_out_at: float = 0.0

    def demand(self) -> Demand:
        return Demand(self, self.brokers, self.undecided, self.is_confirming, self.has_committed)

    def capacity(self, brokers: int) -> int:
        return self.records // brokers

    def capacity_in_bytes(self, brokers: int) -> int:
        return self.size // brokers


DEMAND = Wish()

TRANSCRIPTS = {
    "partitions: opens the session": """
        want 0 1
        > fetch 100, wait 500, strictly, opening, add 0 1
    """,
    "partitions: adds and forgets while there is room": """
        hold 0 0-9
        want 1
        > fetch 100, wait 25, strictly, add 1, forget 0
    """,
    "partitions: forgets the last ones without any room": """
        hold 0 0-9
        full
        want
        > fetch 100, wait 25, strictly, forget 0
    """,
    "partitions: awaited acknowledgements are included": """
        hold 0 0-9
        want 0 1
        accept 0 0-9
        confirming
        > fetch 100, wait 25, strictly, add 1, with 0 accept 0-9
    """,
    "partitions: waits for room before it adds": """
        hold 0 0-9
        full
        want 0 1
        > later 60 or 10 undecided
    """,
    "renewals: in a separate request, before everything else": """
        hold 0 0-9
        accept 0 0-4
        renew 0 5-9
        want 1
        confirming
        > renew 0 renew 5-9
        < confirmed
        > acknowledge 0 accept 0-4
        < confirmed
        > fetch 100, wait 25, strictly, add 1, forget 0
    """,
    "unassigned: never together with a fetch": """
        hold 0 0-9
        hold 1 0-9
        want 1
        release 0 0-9
        accept 1 0-9
        > acknowledge 0 release 0-9
        < confirmed
        > fetch 100, wait 25, strictly, forget 0, with 1 accept 0-9
    """,
    "awaited: separately and at once": """
        hold 0 0-9
        accept 0 0-3
        full
        > later 0.05 or 10 undecided
        confirming
        > acknowledge 0 accept 0-3
    """,
    "refused: piece by piece, alternating with later decisions": """
        hold 0 0-9
        accept 0 0-3
        confirming
        > acknowledge 0 accept 0-3
        < refused
        not confirming
        > acknowledge 0 accept 0-1
        < refused
        accept 0 4-5
        full
        > acknowledge 0 accept 4-5
        < confirmed
        > acknowledge 0 accept 2-3
        < confirmed
        > acknowledge 0 accept 0
    """,
    "lingering: separately without capacity, after waiting for further decisions": """
        hold 0 0-9
        full
        accept 0 0-3
        > later 0.05 or 10 undecided
        at 0.049
        > later 0.05 or 10 undecided
        accept 0 4-5
        at 0.05
        > acknowledge 0 accept 0-5
    """,
    "lingering: waits again for decisions since the last request": """
        hold 0 0-9
        full
        accept 0 0-3
        > later 0.05 or 10 undecided
        at 0.05
        > acknowledge 0 accept 0-3
        < confirmed
        accept 0 4
        > later 0.1 or 10 undecided
    """,
    "lingering: not if a fetch will get its response at once": """
        brings 0 0-99
        accept 0 0-3
        full
        > later 0.05 or 10 undecided
        at 0.05
        room 100
        > fetch 100, wait 25, strictly, with 0 accept 0-3
    """,
    "lingering: before a fetch that may wait": """
        hold 0 0-9
        undecided 6
        accept 0 0-3
        > later 0.005 or 10 undecided
        at 0.05
        asked
        > acknowledge 0 accept 0-3
        < confirmed
        > fetch 100, wait 25, strictly
    """,
    "confirmation: if the user commits, before a fetch that may wait": """
        hold 0 0-9
        accept 0 0-9
        commits
        > acknowledge 0 accept 0-9
        < confirmed
        > fetch 100, wait 500, strictly
    """,
    "confirmation: included in a fetch that will get its response at once": """
        brings 0 0-99
        accept 0 0-9
        commits
        > fetch 100, wait 25, strictly, with 0 accept 0-9
    """,
    "records: acknowledgements are included": """
        hold 0 0-9
        accept 0 0-9
        > fetch 100, wait 25, strictly, with 0 accept 0-9
    """,
    "records: the broker may wait if no records are held": """
        want 0
        > fetch 100, wait 500, strictly, opening, add 0
        < nothing
        > fetch 100, wait 500, strictly
    """,
    "records: a short pause after all available records were handed out": """
        hold 0 0-9
        undecided 10
        > later 0.005 or 10 undecided
        at 0.004
        > later 0.005 or 10 undecided
        at 0.005
        > fetch 100, wait 25, strictly
    """,
    "records: no pause if the user waits for more": """
        hold 0 0-9
        undecided 10
        asked
        > fetch 100, wait 25, strictly
    """,
    "records: no pause if the broker has more": """
        brings 0 0-99
        undecided 100
        > fetch 100, wait 25, strictly
    """,
    "records: the broker waits longer, the longer nothing was decided": """
        hold 0 0-9
        at 1
        > fetch 100, wait 250, strictly
        < nothing
        at 19
        > fetch 100, wait 500, strictly
    """,
    "records: the broker waits as long as acknowledgements may wait, at the user's rate": """
        hold 0 0-9
        rate 4
        > fetch 100, wait 62, strictly
    """,
    "records: the broker waits no longer than the held records take, which may lock all it has": """
        brings 0 0-99
        rate 10000
        undecided 100
        > fetch 100, wait 10, strictly
    """,
    "records: the broker doesn't wait if only what is ready is wanted": """
        brings 0 0-99
        ready
        > fetch 100, wait 1, strictly
    """,
    "records: the broker waits even so if it had nothing, rather than being asked again and again": """
        hold 0 0-9
        ready
        at 0.005
        > fetch 100, wait 25, strictly
    """,
    "records: the broker waits for a small part of a short lock": """
        want 0
        > fetch 100, wait 500, strictly, opening, add 0
        < nothing, lock 1000
        > fetch 100, wait 100, strictly
    """,
    "records: whole batches with much capacity": """
        want 0
        room 500
        > fetch 500, wait 500, opening, add 0
    """,
    "nothing: no partition is wanted": """
        > later 60 or 10 undecided
    """,
    "nothing: wakes at the first decision, when acknowledgements start to wait": """
        hold 0 0-39
        undecided 40
        full
        > later 60 or 39 undecided
    """,
}


class Talk:
    """A session, its acknowledgements and its planner; executes the lines of the scripts."""

    def __init__(self, **options: Any) -> None:
        self.session = ShareSession("g", "m")
        self.partition_acks: dict[TopicIdPartition, PartitionAcks] = {}
        settings: dict[str, Any] = {"acquire": "auto", "max_response_bytes": 100 << 20}
        self.planner = RequestPlanner(self.session, self.partition_acks, **settings | options)
        self.counter = UndecidedCounter(lambda: None)
        self.demand = DEMAND
        self.now = 0.0

    def next(self) -> SentRequest | NextCheck:
        sent = self.planner.next(self.demand.demand(), self.now)
        return self.planner.next_check(self.demand.demand(), self.now) if sent is None else sent

    def want(self, *numbers: int) -> None:
        self.session.want([(TOPIC, number) for number in numbers])

    def decide(self, number: int, first: int, last: int, kind: int) -> None:
        for lease in self.partition_acks[TOPIC, number].leases:
            for offset in range(max(first, lease.first), min(last, lease.last) + 1):
                lease.decide(offset, kind)

    def respond(self, *acquired: tuple[int, int, int], error: int = 0, lock_ms: int = 30_000) -> None:
        """To the pending request: these ranges (partition, first, last), or this error for acknowledgements."""
        sent = self.session.under_way
        assert sent is not None
        message: ShareFetchResponse | ShareAcknowledgeResponse
        if isinstance(sent.request, ShareFetchRequest):
            rows = {number: PartitionData(number, acknowledge_error_code=error) for _, number in sent.acks}
            for number, first, last in acquired:
                rows.setdefault(number, PartitionData(number)).acquired_records.append(
                    AcquiredRecords(first, last, 1)
                )
            topics = [ShareFetchableTopicResponse(TOPIC, list(rows.values()))]
            message = ShareFetchResponse(responses=topics, acquisition_lock_timeout_ms=lock_ms)
        else:
            refused = [acknowledged.PartitionData(number, error_code=error) for _, number in sent.acks]
            responses = [acknowledged.ShareAcknowledgeTopicResponse(TOPIC, refused)]
            message = ShareAcknowledgeResponse(responses=responses, acquisition_lock_timeout_ms=lock_ms)
        response = self.session.on_response(sent, message)
        self.planner.on_response(sent, response, self.now)
        for partition, code in response.acknowledged.items():
            self.partition_acks[partition].on_response(code)
            self.partition_acks[partition].forget_done()
            if not self.partition_acks[partition].leases:
                del self.partition_acks[partition]
        for partition, data in response.acquired:
            acks = self.partition_acks.setdefault(partition, PartitionAcks(partition))
            for record in data.acquired_records:
                acks.add(Lease(partition, record.first_offset, record.last_offset, 1, counter=self.counter))

    def bring(self, number: int, first: int, last: int) -> None:
        """Fetch these records, whatever else is wanted."""
        wanted = {one for _, one in self.session.wanted}
        self.want(*wanted, number)
        before, self.demand = self.demand, DEMAND._replace(is_user_waiting=True)
        assert isinstance(self.next(), SentRequest)
        self.respond((number, first, last))
        self.demand = before

    def do(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word, rest.split():
            case "want", numbers:
                self.want(*map(int, numbers))
            case "hold" | "brings", [number, span]:
                # A fetch that returns at least half of what it asked for has left more at the broker.
                self.bring(int(number), *ends(span))
                assert self.planner.broker_has_more == (word == "brings")
            case (("accept" | "release" | "reject" | "renew"), [number, span]):
                self.decide(int(number), *ends(span), KINDS[word])
            case "at", [when]:
                self.now = float(when)
            case "full", []:
                self.demand = self.demand._replace(wants_more=False)
            case "room", [records]:
                self.demand = self.demand._replace(wants_more=True, records=int(records))
            case "undecided", [records]:
                self.demand = self.demand._replace(undecided=int(records))
            case "rate", [records]:
                self.demand = self.demand._replace(rate=float(records))
            case "asked", []:
                self.demand = self.demand._replace(is_user_waiting=True)
            case "ready", []:
                self.demand = self.demand._replace(wants_only_ready=True)
            case "commits", []:
                self.demand = self.demand._replace(has_committed=True)
            case "confirming", []:
                self.demand = self.demand._replace(is_confirming=True)
            case "not", ["confirming"]:
                self.demand = self.demand._replace(is_confirming=False)
            case "<", ["confirmed" | "nothing"]:
                self.respond()
            case "<", ["nothing,", "lock", lock_ms]:
                self.respond(lock_ms=int(lock_ms))
            case "<", ["refused"]:
                self.respond(error=121)
            case _:
                raise AssertionError(f"{line!r} is not a valid line of a script")


def ends(span: str) -> tuple[int, int]:
    first, _, last = span.partition("-")
    return int(first), int(last or first)


def told(following: SentRequest | NextCheck) -> str:
    """In the syntax of the scripts."""
    if isinstance(following, NextCheck):
        return f"later {following.at:g} or {following.undecided} undecided"
    request = following.request
    acks = " ".join(
        f"{number} " + " ".join(f"{name(types)} {shown(first, last)}" for first, last, types in ranges)
        for (_, number), ranges in sorted(following.acks.items())
    )
    if isinstance(request, ShareAcknowledgeRequest):
        return f"{'renew' if request.is_renew_ack else 'acknowledge'} {acks}"
    named = [row.partition_index for topic in request.topics for row in topic.partitions]
    added = [str(number) for number in named if (TOPIC, number) not in following.acks]
    forgotten = [str(number) for topic in request.forgotten_topics_data for number in topic.partitions]
    parts = [
        f"fetch {request.max_records}",
        f"wait {request.max_wait_ms}",
        "strictly" * request.share_acquire_mode,
        "opening" * (request.share_session_epoch == 0),
        f"add {' '.join(added)}" * bool(added),
        f"forget {' '.join(forgotten)}" * bool(forgotten),
        f"with {acks}" * bool(acks),
    ]
    return ", ".join(filter(None, parts))


def name(types: bytes) -> str:
    return "/".join(WORDS[kind] for kind in dict.fromkeys(types))


def shown(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else str(first)


@pytest.mark.parametrize("title", TRANSCRIPTS)
def test_transcript(title: str) -> None:
    talk = Talk()
    for line in filter(None, map(str.strip, TRANSCRIPTS[title].splitlines())):
        if line.startswith("> "):
            assert f"> {told(talk.next())}" == line
        else:
            talk.do(line)


def test_every_rule_has_a_script() -> None:
    assert {title.partition(":")[0] for title in TRANSCRIPTS} == {rule.name for rule in REQUEST_RULES} | {
        "nothing"
    }


@pytest.mark.parametrize(
    ("acquire", "below", "above"), [("auto", 1, 0), ("batches", 0, 0), ("records", 1, 1)]
)
def test_acquire_mode_depends_on_the_capacity(acquire: str, below: int, above: int) -> None:
    for capacity, mode in ((499, below), (500, above)):
        talk = Talk(acquire=acquire)
        talk.want(0)
        talk.demand = DEMAND._replace(records=capacity)
        sent = talk.next()
        assert isinstance(sent, SentRequest)
        assert isinstance(sent.request, ShareFetchRequest)
        assert sent.request.share_acquire_mode == mode


def test_max_bytes_does_not_exceed_the_capacity() -> None:
    for capacity, asked in ((1, 1), (MIN_FETCH_BYTES - 1, MIN_FETCH_BYTES - 1), (1 << 30, MIN_FETCH_BYTES)):
        talk = Talk()
        talk.want(0)
        talk.demand = DEMAND._replace(size=capacity)
        sent = talk.next()
        assert isinstance(sent, SentRequest)
        assert isinstance(sent.request, ShareFetchRequest)
        assert sent.request.max_bytes == asked


def test_last_requests_settle_decided_records_and_end_the_session() -> None:
    talk = Talk()
    talk.bring(0, 0, 9)
    assert talk.planner.settle(0.0) is None
    talk.decide(0, 0, 4, ACCEPT)
    sent = talk.planner.settle(0.0)
    assert sent is not None
    assert told(sent) == "acknowledge 0 accept 0-4"
    talk.respond()
    talk.decide(0, 5, 5, REJECT)
    last = talk.planner.end(0.0)
    assert told(last) == "acknowledge 0 reject 5"
    assert last.request.share_session_epoch == -1


def test_nothing_is_requested_while_a_request_is_pending() -> None:
    talk = Talk()
    talk.want(0)
    sent = talk.next()
    assert talk.session.under_way is sent
    with pytest.raises(ValueError, match="under way"):
        talk.next()
    talk.respond()
    assert isinstance(talk.next(), SentRequest)


_SPANS = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda span: (span[0], span[0] + span[1]))
_STEPS = st.one_of(
    st.tuples(st.just("want"), st.sets(st.integers(0, 2))),
    st.tuples(st.just("decide"), st.integers(0, 2), _SPANS, st.sampled_from(list(KINDS.values()))),
    st.tuples(st.just("wait"), st.sampled_from([0.001, 0.005, 0.05, 1.0, 30.0])),
    st.tuples(
        st.just("demand"),
        st.fixed_dictionaries(
            {},
            optional={
                "wants_more": st.booleans(),
                "is_user_waiting": st.booleans(),
                "wants_only_ready": st.booleans(),
                "is_confirming": st.booleans(),
                "has_committed": st.booleans(),
                "records": st.integers(1, 1000),
                "undecided": st.integers(0, 100),
                "rate": st.floats(0, 1e6),
            },
        ),
    ),
    st.tuples(st.just("next"), st.sampled_from([0, 0, 0, 121, 6, 14]), st.integers(0, 12)),
    st.tuples(st.just("reset")),
)


@given(st.lists(_STEPS, max_size=60))
def test_any_sequence_of_events(steps: list[Any]) -> None:
    talk, offset = Talk(), 0
    for step in steps:
        match step:
            case "want", numbers:
                talk.want(*numbers)
            case "decide", number, (first, last), kind:
                if (TOPIC, number) in talk.partition_acks:
                    talk.decide(number, first, last, kind)
            case "wait", seconds:
                talk.now += seconds
            case "demand", changes:
                talk.demand = talk.demand._replace(**changes)
            case "reset", *_:
                talk.session.reset()
                talk.partition_acks.clear()
            case "next", error, count:
                following = talk.next()
                check(talk, following)
                if isinstance(following, SentRequest):
                    named = sorted(following.partitions & talk.session.wanted)
                    is_fetch = isinstance(following.request, ShareFetchRequest)
                    if is_fetch and named and count:
                        talk.respond((named[0][1], offset, offset + count - 1), error=error)
                        offset += count
                    else:
                        talk.respond(error=error)


def check(talk: Talk, following: SentRequest | NextCheck) -> None:
    decided = [acks for acks in talk.partition_acks.values() if acks.has_decided]
    if isinstance(following, NextCheck):
        assert talk.session.under_way is None
        assert talk.now <= following.at <= talk.now + MAX_IDLE_S
        assert not (decided and talk.demand.is_confirming)
        assert all(
            (TOPIC, number) in talk.session.wanted for _, number in (acks.partition for acks in decided)
        )
        assert not decided or following.at <= talk.now + LINGER_S
        return
    assert talk.session.under_way is following
    types = {kind for ranges in following.acks.values() for range_ in ranges for kind in range_.types}
    request = following.request
    if isinstance(request, ShareAcknowledgeRequest):
        assert following.acks
        assert types == {RENEW} if request.is_renew_ack else RENEW not in types
        return
    assert RENEW not in types
    assert following.acks.keys() <= talk.session.wanted
    assert not (request.share_session_epoch == 0 and following.acks)
    assert talk.demand.wants_more or talk.session.wanted != following.partitions or not talk.session.wanted
    assert 1 <= request.max_wait_ms <= IDLE_WAIT_MS
    assert 1 <= request.max_records == talk.demand.records
    # All acknowledgements that can be included are included.
    left = [lease for acks in talk.partition_acks.values() if not acks.has_retries for lease in acks.leases]
    wanted = [lease for lease in left if lease.partition in talk.session.wanted]
    assert all(not lease.has_decided for lease in wanted)
    assert all(state == HELD or state & 0xF0 for lease in wanted for state in lease.states)
