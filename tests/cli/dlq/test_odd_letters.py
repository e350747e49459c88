"""Dead letters with headers that no broker writes: anybody who may write to the topic can write any."""

from __future__ import annotations

import pytest

from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, GROUP, letter, letters_of, redriven, values
from tests.cli.running import Kshare
from tests.helpers.reading_groups import make_reader

LARGE = "9" * 5000


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset", LARGE),
        ("offset", "9" * 30),
        ("partition", LARGE),
        ("partition", str(2**31)),
        ("topic", "no/such topic\x1b[31m"),
        ("topic", "x" * 40_000),
    ],
    ids=["endless offset", "large offset", "endless partition", "large partition", "name", "long name"],
)
def test_an_odd_letter_does_not_stop_the_others(broker: Broker, run: Kshare, name: str, value: str) -> None:
    headers = {"topic": "orders", "partition": "1", "offset": "0", name: value}
    letter(broker, b"odd", None, 0, **headers)
    letter(broker, b"good", ("orders", 1, 5))
    assert "\x1b" not in run("dlq", "show", GRAVE).out
    assert len(letters_of(run)) == 2
    found = redriven(run, "--group", "again", code=1)
    assert (found["redriven"], len(found["left"])) == (1, 1)
    assert values(broker, "orders") == [b"good"]


def test_letters_of_a_deleted_topic_do_not_stop_the_others(run: Kshare) -> None:
    with Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        broker.create_topic("orders", 2)
        broker.create_topic(GRAVE)
        make_reader(broker, GROUP, "orders")
        letter(broker, b"old", ("deleted", 0, 0))
        letter(broker, b"good", ("orders", 1, 5))
        done = run("dlq", "redrive", GRAVE, "--bootstrap-server", broker.bootstrap)
        assert (done.code, values(broker, "orders")) == (1, [b"good"])
        assert f"group {GROUP} doesn't read topic deleted" in done.out + done.err


def test_an_odd_number_of_deliveries_is_unknown(broker: Broker, run: Kshare) -> None:
    letter(broker, b"odd", ("orders", 1, 0), delivery_count=LARGE)
    assert [letter["deliveries"] for letter in letters_of(run)] == [None]


@pytest.mark.lengthy
def test_letters_without_an_origin_are_no_duplicates(broker: Broker, run: Kshare) -> None:
    """They may be equal without being copies, whatever their headers say."""
    letter(broker, b"tick", topic="orders")
    letter(broker, b"tick", topic="orders", moved_from="0:0")
    letter(broker, b"tick", topic="orders", moved_first="0:0")
    assert redriven(run, "--to", "orders")["redriven"] == 3
    assert values(broker, "orders") == [b"tick"] * 3
