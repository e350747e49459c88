"""Pages of dead letters, with the embedded broker: what is offered, what is refused, and where moved letters are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListOffsetsRequest
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, eventually, running_console
from tests.helpers.lost_records import lose
from tests.helpers.reading_groups import make_reader

GRAVE, GROUP, HEADER = "dlq.orders", "packers", "__dlq.errors."


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    make_reader(kshare_broker, GROUP, "orders")
    kshare_broker.create_topic(GRAVE, settings={"errors.deadletterqueue.group.enable": "true"})
    return kshare_broker


@pytest.fixture
def console(broker: Broker) -> Iterator[RunningConsole]:
    with running_console(broker.bootstrap, allow_changes=True) as running:
        yield running


@pytest.fixture
def read_only(broker: Broker) -> Iterator[RunningConsole]:
    with running_console(broker.bootstrap) as running:
        yield running


def bury(broker: Broker, value: bytes, **more: str) -> None:
    said = {"topic": "orders", "partition": "0", "offset": "0", "group": GROUP, **more}
    headers = [(HEADER + name.replace("_", "."), text.encode()) for name, text in said.items()]
    lose(broker, said["topic"], int(said["partition"]), int(said["offset"]) + 1)
    broker.produce(GRAVE, [value], headers=headers)


def start(console: RunningConsole, **form: str) -> tuple[int, str]:
    """The status and text of the page after a form was sent."""
    _, found, text = console.request(f"/dead-letters/plan?topic={GRAVE}&do=redrive-all")
    token = re.search(r'name="token" value="([0-9a-f]{64})"', text)
    assert token is not None, text
    cookie = {"Cookie": found["set-cookie"].partition(";")[0]}
    sent = {"token": token[1], "topic": GRAVE, "action": "redrive", **form}
    status, found, text = console.request("/dead-letters/start", sent, cookie)
    if status == 303:
        text = eventually(lambda: console.request(found["location"])[2], lambda text: "running" not in text)
    return status, text


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("form", "status", "reason"),
    [
        ({"letters": "0:99"}, 400, "has no dead letter 0:99"),
        ({"to": "nothing-here"}, 404, "there is no topic"),
        ({"letters": " ".join(f"0:{number}" for number in range(10_000))}, 400, "at most 200 can be"),
    ],
)
def test_a_choice_that_cannot_work_is_refused(
    broker: Broker, console: RunningConsole, form: dict[str, str], status: int, reason: str
) -> None:
    bury(broker, b"x")
    found, text = start(console, **form)
    assert (found, reason in text) == (status, True)
    assert broker.records("orders") == []


@pytest.mark.lengthy
def test_a_job_settles_duplicates_and_says_how_many_there_were(
    broker: Broker, console: RunningConsole
) -> None:
    bury(broker, b"x")
    bury(broker, b"x", moved_from="0:0")
    plan = console.request(f"/dead-letters/plan?topic={GRAVE}&do=redrive-all")[2]
    assert "nowhere: a duplicate" in plan
    status, text = start(console, letters="0:0 0:1")
    assert status == 303
    assert re.search(r"<dt>dead letters looked at</dt><dd>2</dd>", text)
    assert re.search(r"<dt>duplicate</dt><dd>1</dd>", text)
    assert len(broker.records("orders")) == 1
    shown = console.request(f"/dead-letters/topic?topic={GRAVE}&show=all")[2]
    assert "moved to 0:1" in shown


@pytest.mark.lengthy
def test_nothing_is_offered_where_nothing_is_open(
    broker: Broker, console: RunningConsole, read_only: RunningConsole
) -> None:
    list_of, letter_of = (
        f"/dead-letters/topic?topic={GRAVE}&show=all",
        f"/dead-letters/letter?topic={GRAVE}&partition=0&offset=0",
    )
    bury(broker, b"x")
    for path in (list_of, letter_of):
        assert "kshare dlq redrive" in read_only.request(path)[2]
    assert start(console, action="drop", letters="0:0")[0] == 303
    plan = f"/dead-letters/plan?topic={GRAVE}&do=drop-all"
    for path in (list_of, letter_of, plan):
        assert "kshare dlq" not in read_only.request(path)[2], path
    assert "there is nothing to redrive or drop" in read_only.request(list_of)[2]


@pytest.mark.lengthy
def test_records_of_other_topics_are_not_dropped(
    broker: Broker, console: RunningConsole, read_only: RunningConsole
) -> None:
    broker.produce("orders", [b"x"])
    broker.produce(GRAVE, [b"x"])
    for topic, offers_drop in (("orders", False), (GRAVE, True)):
        for path in ("topic?", "letter?partition=0&offset=0&"):
            address = f"/dead-letters/{path}topic={topic}"
            assert ('value="drop-chosen"' in console.request(address)[2]) == offers_drop, address
            assert ("kshare dlq drop" in read_only.request(address)[2]) == offers_drop, address


@pytest.mark.lengthy
def test_before_a_redrive_other_groups_that_read_the_topic_are_named(
    broker: Broker, console: RunningConsole, read_only: RunningConsole
) -> None:
    bury(broker, b"x")
    broker.produce("orders", [b"x"])
    for group in ("packers", "invoices"):
        broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        with sync.ShareConsumer(broker.bootstrap, group=group, topics=["orders"]) as consumer:
            next(iter(consumer))
    said = (
        "After a redrive, all groups that read orders get these records, also consumer groups; "
        "other share groups: invoices."
    )
    for running, path in (
        (console, f"/dead-letters/plan?topic={GRAVE}&do=redrive-all"),
        (console, f"/dead-letters/letter?topic={GRAVE}&partition=0&offset=0"),
        (read_only, f"/dead-letters/topic?topic={GRAVE}"),
    ):
        eventually(partial(running.request, path), lambda response: said in response[2])
    assert "invoices" not in console.request(f"/dead-letters/plan?topic={GRAVE}&do=drop-all")[2]


@pytest.mark.lengthy
def test_the_dry_run_of_a_redrive_counts_by_target_and_leaves_forged_ones(
    broker: Broker, console: RunningConsole
) -> None:
    broker.create_topic("payments")
    bury(broker, b"x")
    bury(broker, b"forged", topic="payments")
    text = console.request(f"/dead-letters/plan?topic={GRAVE}&do=redrive-all")[2]
    assert "Would be written: 1 to orders." in text
    assert "group packers doesn&#39;t read topic payments" in text
    start(console)
    assert [bytes(record.value or b"") for record in broker.records("orders")] == [b"x"]
    assert broker.records("payments") == []


@pytest.mark.lengthy
def test_the_dry_run_of_a_drop_marks_duplicates(broker: Broker, console: RunningConsole) -> None:
    bury(broker, b"x")
    bury(broker, b"x", moved_from="0:0")
    text = console.request(f"/dead-letters/plan?topic={GRAVE}&do=drop-all")[2]
    assert text.count("<small>a duplicate</small>") == 1


@pytest.mark.lengthy
def test_a_slow_broker_does_not_hide_the_counts_of_others() -> None:
    with Broker(nodes=2) as broker:
        for number, name in enumerate(("dlq.a", "dlq.z")):
            broker.create_topic(name, settings={"errors.deadletterqueue.group.enable": "true"})
            broker.move_leader(name, 0, number + 1)
        broker.produce("dlq.z", [b"x"] * 3)
        broker.faults.add(ListOffsetsRequest, times=None, node=1, swallow=True)
        with running_console(broker.bootstrap) as console:
            text = console.request("/dead-letters")[2]
    counted = re.findall(r'topic=([a-z.]+)".*?data-name="records">([^<]+)<', text)
    assert counted == [("dlq.a", "\u2013"), ("dlq.z", "3")]
    assert "A dash stands for what couldn't be counted" in text


@pytest.mark.lengthy
def test_many_topics_of_a_slow_broker_do_not_hide_the_counts_of_others() -> None:
    """A few are counted at once."""
    with Broker(nodes=2) as broker:
        names = [f"dlq.{number:02}" for number in range(11)]
        for name in names:
            broker.create_topic(name, settings={"errors.deadletterqueue.group.enable": "true"})
            broker.move_leader(name, 0, 2 if name == names[-1] else 1)
        broker.produce(names[-1], [b"x"] * 3)
        broker.faults.add(ListOffsetsRequest, times=None, node=1, swallow=True)
        with running_console(broker.bootstrap) as console:
            text = console.request("/dead-letters")[2]
    counted = dict(re.findall(r'topic=([a-z0-9.]+)".*?data-name="records">([^<]+)<', text))
    assert counted == dict.fromkeys(names[:-1], "\u2013") | {names[-1]: "3"}


@pytest.mark.lengthy
def test_an_error_of_one_topic_does_not_hide_the_others() -> None:
    """One that is deleted while topics are counted made the page a 404."""
    with Broker(nodes=1) as broker:
        for name in ("dlq.a", "dlq.z"):
            broker.create_topic(name, settings={"errors.deadletterqueue.group.enable": "true"})
        broker.produce("dlq.z", [b"x"] * 3)
        broker.faults.add(
            ListOffsetsRequest,
            times=None,
            when=lambda request: request.topics[0].name == "dlq.a",
            error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        with running_console(broker.bootstrap) as console:
            status, _, text = console.request("/dead-letters")
    assert status == 200
    counted = re.findall(r'topic=([a-z.]+)".*?data-name="records">([^<]+)<', text)
    assert counted == [("dlq.a", "\u2013"), ("dlq.z", "3")]


@pytest.mark.lengthy
def test_groups_whose_members_write_their_dead_letters_are_named(
    broker: Broker, console: RunningConsole
) -> None:
    """As kshare's workers do. It said that there is no topic."""
    bury(broker, b"x")
    address = f'href="/dead-letters/topic?topic={GRAVE}"'
    for path, said in (
        ("/dead-letters", f'data-name="of groups">{GROUP}</td>'),
        ("/", f"{address}>in {GRAVE}</a>"),
        (f"/group?name={GROUP}", f"{address}>in {GRAVE}, written by members</a>"),
    ):
        text = eventually(partial(console.request, path), lambda found, said=said: said in found[2])[2]  # type: ignore[misc]
        assert "no topic</" not in text
