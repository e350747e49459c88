"""Dead letters that strangers wrote, in the name of groups that write theirs elsewhere, or of records that never were.

Whoever may write to the dead-letter topic chooses its headers: a redrive has the rights of its user.
"""

from __future__ import annotations

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, GROUP, SETTINGS, context, letter, redriven, values
from tests.cli.running import Kshare
from tests.helpers.reading_groups import make_reader

DOUBT = (
    ", so anyone who can write to the dead-letter topic may have written it; if you trust it, name its topic"
)
END = "9" * 12


@pytest.fixture
def payments(broker: Broker) -> Broker:
    """Group payers reads payments, and its dead letters go to dlq.payments."""
    broker.create_topic("payments", 1)
    broker.create_topic("dlq.payments", 1, {f"{SETTINGS}group.enable": "true"})
    broker.set_group_config("payers", {f"{SETTINGS}topic.name": "dlq.payments"})
    make_reader(broker, "payers", "payments")
    broker.produce("payments", [b"genuine"])
    return broker


def forge(
    broker: Broker, group: str, topic: str, partition: str, offset: str, *more: tuple[str, bytes]
) -> None:
    said = context(None, {"topic": topic, "partition": partition, "offset": offset, "group": group})
    broker.produce(GRAVE, [b"forged"], headers=[*more, *said], partition=0)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("partition", "offset", "more"),
    [
        ("0", END, ()),
        ("0", "0", (("trace", b"1"),)),
        ("7", "5", ()),
        ("0", END, (("__dlq.errors.topic", b"orders"),)),
    ],
    ids=["beyond the end", "own header", "no such partition", "duplicate header"],
)
def test_a_letter_of_a_group_with_another_dead_letter_topic_is_left(
    payments: Broker, run: Kshare, partition: str, offset: str, more: tuple[tuple[str, bytes], ...]
) -> None:
    forge(payments, "payers", "payments", partition, offset, *more)
    reason = f"the dead letters of group payers belong in topic dlq.payments{DOUBT} with --to payments"
    assert redriven(run, code=1)["left"] == [{"letter": "0:0", "reason": reason}]
    assert values(payments, "payments") == [b"genuine"]
    assert redriven(run, "--to", "payments")["targets"] == {"payments": 1}


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("partition", "offset", "more", "reason"),
    [
        ("0", END, (), f"orders[0]@{END} is beyond the end of its log"),
        ("0", END, (("own", b"1"),), f"orders[0]@{END} is beyond the end of its log"),
        ("7", "0", (), "topic orders has no partition 7"),
        ("0", "0", (), "orders[0]@0 is another record"),
        ("0", "0", (("own", b"1"),), "orders[0]@0 is another record"),
    ],
)
def test_a_letter_of_a_record_that_was_never_there_is_left(
    broker: Broker, run: Kshare, partition: str, offset: str, more: tuple[tuple[str, bytes], ...], reason: str
) -> None:
    broker.produce("orders", [b"genuine"], partition=0)
    forge(broker, GROUP, "orders", partition, offset, *more)
    done = run("dlq", "redrive", GRAVE, "--dry-run")
    kind = reason.replace(f"orders[0]@{offset}", "the original record")
    assert f"1 dead letter would not be redriven: {kind}{DOUBT} with --to orders" in done.out
    assert redriven(run, code=1)["left"] == [{"letter": "0:0", "reason": f"{reason}{DOUBT} with --to orders"}]
    assert values(broker, "orders") == [b"genuine"]
    assert redriven(run, "--to", "orders")["redriven"] == 1
    assert sorted(values(broker, "orders"), key=repr) == [b"forged", b"genuine"]


@pytest.mark.lengthy
def test_headers_that_were_added_are_not_written_beside_the_original(broker: Broker, run: Kshare) -> None:
    broker.produce("orders", [b"forged"], partition=0, headers=[("own", b"1")])
    forge(broker, GROUP, "orders", "0", "0", ("added", b"1"))
    assert redriven(run)["redriven"] == 1
    assert [list(record.headers) for record in broker.records("orders")] == [[("own", b"1")]] * 2


@pytest.mark.lengthy
def test_the_right_to_describe_the_config_of_the_group_is_needed(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))

    def refuse(response: DescribeConfigsResponse) -> None:
        for result in response.results:
            if result.resource_name == GROUP:
                result.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    broker.faults.add(DescribeConfigsRequest, times=None, change=refuse)
    found = redriven(run, code=1)
    assert found["left"][0]["reason"].startswith(
        f"it can't be checked where the dead letters of group {GROUP} belong"
    )
    assert redriven(run, "--to", "orders")["redriven"] == 1
