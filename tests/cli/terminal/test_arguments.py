"""Topics on the command line: whole ones, where no partitions can be chosen."""

from __future__ import annotations

import pytest

from tests.cli.running import assert_refused, kshare

AT_NO_CLUSTER = {"KSHARE_BOOTSTRAP_SERVER": "127.0.0.1:1"}


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("doctor --topic orders:0", "--topic"),
        ("groups delete-offsets g --topic payments --topic orders:0", "--topic"),
        ("dlq show orders:0", "TOPIC"),
        ("dlq show dead --source orders:0", "--source"),
        ("dlq redrive orders:0 --dry-run", "TOPIC"),
        ("dlq redrive dead --to orders:0", "--to"),
        ("dlq drop orders:0 --all", "TOPIC"),
        ("trace --topic orders:0", "--topic"),
        ("produce --topic orders:0", "--topic"),
    ],
)
def test_partitions_are_refused_where_none_can_be_chosen(line: str, where: str) -> None:
    done = kshare(*line.split(), environment=AT_NO_CLUSTER)
    assert_refused(done, 2, f"{where} orders:0: not the name of a topic; use letters, digits, ")
    assert done.err.endswith("at most 249; partitions can't be chosen here\n")


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 250])
def test_what_no_topic_is_called_is_refused(name: str) -> None:
    done = kshare("dlq", "show", name, environment=AT_NO_CLUSTER)
    assert_refused(done, 2, f"TOPIC {name}: not the name of a topic; use letters")
    assert "partitions" not in done.err
