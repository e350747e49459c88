"""Dead letters whose records, or whose copies, the broker refuses: what to do is said, and others are written."""

from __future__ import annotations

import re

import pytest

from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, GROUP, letter, letters_of, redriven, values
from tests.cli.running import Kshare
from tests.helpers.lost_records import lose
from tests.helpers.reading_groups import make_reader

_ADVICE = re.compile(r"raise max\.message\.bytes of topic (\S+) to (\d+)\n")


def advice(text: str) -> tuple[str, dict[str, str]]:
    found = _ADVICE.search(text)
    assert found, text
    return found[1], {"max.message.bytes": found[2]}


@pytest.mark.lengthy
def test_others_are_redriven_once_beside_one_that_is_too_large(broker: Broker, run: Kshare) -> None:
    broker.set_topic_config("orders", {"max.message.bytes": "1000"})
    for value in (b"a", b"x" * 1200, b"b"):
        letter(broker, value, ("orders", 0, 9))
    done = run("dlq", "redrive", GRAVE)
    assert (done.code, done.err) == (1, "kshare: 1 dead letter couldn't be redriven\n")
    assert (
        "2 dead letters redriven: 2 to orders\n0:1 not redriven: writing to orders[0]: MESSAGE_TOO_LARGE"
        in done.out
    )
    broker.set_topic_config(*advice(done.out))
    assert redriven(run)["redriven"] == 1
    assert values(broker, "orders") == [b"a", b"b", b"x" * 1200]


@pytest.mark.lengthy
def test_others_are_redriven_once_beside_one_that_is_invalid(broker: Broker, run: Kshare) -> None:
    """Brokers refuse the whole batch: records of compacted topics need keys."""
    broker.set_topic_config("orders", {"cleanup.policy": "compact"})
    context = [
        (f"__dlq.errors.{name}", said)
        for name, said in (
            ("topic", b"orders"),
            ("partition", b"0"),
            ("offset", b"9"),
            ("group", GROUP.encode()),
        )
    ]
    lose(broker, "orders", 0, 10)
    for key in (b"k", None, b"l"):
        broker.produce(GRAVE, [b"x"], key=key, headers=context, partition=0)
    done = run("dlq", "redrive", GRAVE)
    assert (done.code, done.err) == (1, "kshare: 1 dead letter couldn't be redriven\n")
    assert "0:1 not redriven: writing to orders[0]: INVALID_RECORD" in done.out
    assert [record.key for record in broker.records("orders")] == [b"k", b"l"]


@pytest.mark.lengthy
def test_a_letter_can_be_moved_again_and_again_with_the_limit_that_was_named(
    broker: Broker, run: Kshare
) -> None:
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "5"})
    broker.set_topic_config(GRAVE, {"max.message.bytes": "2000"})
    for value in (b"x" * 1818, b"x" * 1773):
        letter(broker, value, ("orders", 0, 9))
    runs = [run("dlq", "redrive", GRAVE, "--source", "other") for _ in range(3)]
    broker.set_topic_config(*advice(runs[-1].err))
    assert sum(redriven(run, "--source", "other")["moved"] for _ in range(8)) >= 4
    assert not any(letter["given_up"] for letter in letters_of(run))


@pytest.mark.lengthy
def test_letters_that_name_topics_to_which_nothing_is_written_are_left(broker: Broker, run: Kshare) -> None:
    make_reader(broker, GROUP, "__share_group_state")
    letter(broker, b"x", ("__share_group_state", 0, 9))
    letter(broker, b"y", (GRAVE, 0, 9))
    letter(broker, b"z", ("orders", 0, 9))
    done = run("dlq", "redrive", GRAVE)
    assert (done.code, done.err) == (1, "kshare: 2 dead letters couldn't be redriven\n")
    assert done.out.startswith("1 dead letter redriven: 1 to orders\n")
    assert "0:0 not redriven: nothing can be written to topic __share_group_state: " in done.out
    assert "0:1 not redriven: it says that its record is in the dead-letter topic itself" in done.out
    assert values(broker, GRAVE) == [b"x", b"y", b"z"]


@pytest.mark.lengthy
def test_records_of_many_megabytes_are_moved_and_redriven(broker: Broker, run: Kshare) -> None:
    for topic in ("orders", GRAVE):
        broker.set_topic_config(topic, {"max.message.bytes": "50000000"})
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "5"})
    letter(broker, b"x" * 35_000_000, ("orders", 0, 9))
    assert [redriven(run, "--source", "other")["moved"] for _ in range(3)] == [0, 0, 1]
    assert redriven(run)["redriven"] == 1
    assert [len(value or b"") for value in values(broker, "orders")] == [35_000_000]
