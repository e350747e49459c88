"""`kshare worker check` against a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshare.testing import Broker
from tests.cli.running import Kshare

APP = """
from kshare.worker import Worker

worker = Worker(group="{group}", dead_letters="dead", retry_topics=True)

@worker.handler("orders")
async def ship(value: bytes) -> None: ...
"""


@pytest.fixture
def broker(kshare_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return kshare_broker


def test_a_worker_that_fits_its_cluster(broker: Broker, tmp_path: Path, run: Kshare) -> None:
    (tmp_path / "fitting_app.py").write_text(APP.format(group="shippers"))
    broker.create_topic("orders", 2)
    broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    done = run("worker", "check", "fitting_app")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert "ok       worker: it has the handler ship" in lines
    assert "ok       topic orders: 2 partitions, and it may be read" in lines
    assert "ok       topic dead: the dead-letter topic doesn't exist yet: the worker will create it" in lines
    assert sum("retry topic" in line for line in lines) == 3
    created = run("topics", "list", "--json")
    assert [load["topic"] for load in json.loads(created.out)] == ["orders"]  # the check has created nothing


def test_problems_are_shown_with_commands_and_set_the_exit_code(
    broker: Broker, tmp_path: Path, run: Kshare
) -> None:
    (tmp_path / "misfit_app.py").write_text(APP.format(group="shippers"))
    broker.create_topic("order", 2)
    done = run("worker", "check", "misfit_app:worker", "--workers", "300", "--json")
    assert (done.code, done.err) == (1, "kshare: 3 problems were found\n")
    found = {
        (load["level"], load["check"], *load["todo"])
        for load in json.loads(done.out)
        if load["level"] != "ok"
    }
    create = f"kshare topics create orders --bootstrap-server {broker.bootstrap}"
    assert found == {
        ("problem", "topic orders", create),
        ("problem", "group shippers"),
        ("problem", "group shippers.retry"),
    }


def test_unreachable_brokers_are_a_problem(
    broker: Broker, tmp_path: Path, run: Kshare, free_tcp_port: int
) -> None:
    (tmp_path / "lonely_app.py").write_text(APP.format(group="shippers"))
    done = run("worker", "check", "lonely_app", "-b", f"127.0.0.1:{free_tcp_port}")
    assert done.code == 1
    assert "problem  brokers: can't reach " in done.out


def test_locks_that_cannot_be_renewed(tmp_path: Path, run: Kshare, broker: Broker) -> None:
    (tmp_path / "early_app.py").write_text(APP.format(group="shippers"))
    with Broker(release="4.1", topics={"orders": 1}) as early:
        done = run("worker", "check", "early_app", "-b", early.bootstrap)
    assert done.code == 0
    assert (
        "handler ship: time_limit is 300 s, but these brokers can't renew locks, which last 30 s" in done.out
    )
