"""How redrives and drops end: with dead letters that were given up, and with warnings."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import cast

import pytest

from kshare.cli.cluster.connection import Cluster
from kshare.cli.dlq.run_view import watched
from kshare.dead_letters.letter_run import RunProgress
from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, letter, letters_of, redriven
from tests.cli.running import Kshare
from tests.helpers.rejecting import reject


@pytest.mark.lengthy
@pytest.mark.parametrize("action", [("redrive",), ("drop", "--all")])
def test_given_up_letters_are_reported(broker: Broker, run: Kshare, action: tuple[str, ...]) -> None:
    group = f"kshare-dlq-{GRAVE}"
    broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"y", ("orders", 0, 9))
    reject(broker.bootstrap, group, GRAVE, 2)
    done = run("dlq", action[0], GRAVE, *action[1:])
    assert done.code == 1, done
    assert done.err == (
        f"kshare: group {group} has given up 2 dead letters in earlier runs, after as many deliveries as it allows; "
        f"they stay in the topic: use another --group to {action[0]} them\n"
    )
    assert json.loads(run("dlq", action[0], GRAVE, *action[1:], "--json").out)["given_up"] == 2
    assert run("dlq", action[0], GRAVE, *action[1:], "--dry-run").out == (
        f"nothing to {action[0]}: group {group} has given up 2 dead letters; use another --group\n"
    )
    assert run("dlq", action[0], GRAVE, "--source", "other").code == 0
    assert redriven(run, "--group", "another")["redriven"] == 2


def _group_with_few_deliveries(broker: Broker) -> str:
    """Also lets no copy of a letter of 1,818 bytes fit into the topic."""
    broker.set_topic_config(GRAVE, {"max.message.bytes": "2000"})
    group = f"kshare-dlq-{GRAVE}"
    broker.set_group_config(group, {"share.delivery.count.limit": "5"})
    return group


@pytest.mark.lengthy
def test_letters_that_fit_are_moved_beside_one_that_is_too_large(broker: Broker, run: Kshare) -> None:
    _group_with_few_deliveries(broker)
    for value in (b"a", b"x" * 1818, b"b"):
        letter(broker, value, ("orders", 0, 9))
    for code in (0, 0, 1):
        found = redriven(run, "--source", "other", code=code)
    assert found["moved"] == 2
    assert [letter["settled"] for letter in letters_of(run)] == [True, False, True, False, False]
    done = run("dlq", "redrive", GRAVE, "--source", "other")
    assert done.code == 1
    assert "kshare: 1 dead letter couldn't be written to topic dlq.orders again" in done.err
    assert len(letters_of(run)) == 5, "no more copies"


@pytest.mark.lengthy
@pytest.mark.parametrize("action", ["redrive", "drop"])
def test_the_last_delivery_of_a_letter_is_reported_with_its_problem(
    broker: Broker, run: Kshare, action: str
) -> None:
    group = _group_with_few_deliveries(broker)
    letter(broker, b"x" * 1818, ("orders", 0, 9))
    runs = [run("dlq", action, GRAVE, "--source", "other", "--json") for _ in range(5)]
    assert [json.loads(done.out)["last_chances"] for done in runs] == [0, 0, 0, 0, 1]
    assert not any("won't be delivered" in done.err for done in runs[:4])
    assert runs[4].code == 1
    assert runs[4].err.startswith(
        f"kshare: warning: 1 dead letter won't be delivered to group {group} again, because of its delivery count "
        f"limit; it stays in the topic: use another --group to {action} it\n"
        "kshare: 1 dead letter couldn't be written to topic dlq.orders again, which would keep it from being archived: "
    )


def test_warnings_come_after_the_progress_line(capsys: pytest.CaptureFixture[str]) -> None:
    def run_routed(work: object) -> int:
        logging.getLogger("kshare.client").warning("group %s:\nslow", "g")
        return 3

    def text(progress: RunProgress) -> str:
        return ""

    async def run(router: object, show: object) -> int:
        return 0

    cluster = cast("Cluster", SimpleNamespace(run_routed=run_routed))
    assert watched(cluster, ["orders"], text, run) == 3
    assert capsys.readouterr().err == "kshare: warning: group g: slow\n"
