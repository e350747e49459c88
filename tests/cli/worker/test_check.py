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


def test_all_mistakes_of_the_configuration_are_shown(broker: Broker, tmp_path: Path, run: Kshare) -> None:
    (tmp_path / "wrong_app.py").write_text(APP.format(group="shippers"))
    file, properties = tmp_path / "shop.toml", tmp_path / "client.properties"
    file.write_text("[worker]\nmax_records = 5\n[worker.defaults]\nmax_held = 0\nconcurency = 1")
    properties.write_text("sasl.mechanism=PLAIN\nsasl.password=hunter2\nrequest.timeout.ms=soon")
    done = run("worker", "check", "wrong_app", "--config", str(file), "--command-config", str(properties))
    assert (done.code, done.out) == (1, "")
    assert "hunter2" not in done.err
    assert done.err.splitlines() == [
        "kshare: 4 mistakes in the configuration:",
        f"- {file}: [worker.defaults]: there is no option 'concurency'; did you mean concurrency?",
        f"- {file}: max_records is an option of consumers, not of workers: leave it out",
        f"- {file}, [worker.defaults]: max_held must be a whole number from 1 to 1,000,000, not 0",
        "- request.timeout.ms: 'soon' isn't a whole number",
    ]


def test_all_mistakes_of_a_worker_in_code_are_shown(broker: Broker, tmp_path: Path, run: Kshare) -> None:
    code = APP.format(group="shippers").replace('dead_letters="dead"', "max_held=0, drain_timout=5")
    (tmp_path / "mistaken_app.py").write_text(code)
    done = run("worker", "check", "mistaken_app")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "kshare: importing mistaken_app failed: ConfigError: 2 mistakes in the configuration:",
        "- there is no option 'drain_timout'; did you mean drain_timeout?",
        "- max_held must be a whole number from 1 to 1,000,000, not 0",
        "(mistaken_app.py, line 4, in <module>: worker = Worker("
        'group="shippers", max_held=0, drain_timout=5, retry_topics=True))',
    ]
