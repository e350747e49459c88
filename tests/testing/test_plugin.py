"""The pytest plugin as users run it: in a separate run, with an ini file and a test module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lengthy

DEADLINE_S = 120
_SETTING = "share.record.lock.duration.ms"


def run(folder: Path, ini: str, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers -p no:cacheprovider\n{ini}")
    (folder / "test_it.py").write_text(module)
    command = [sys.executable, "-m", "pytest", "-q", *arguments, str(folder)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def test_marker_has_the_options_of_the_broker(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "",
        f"""
import pytest

pytestmark = pytest.mark.kshare_broker(topics={{"orders": 2}}, min_lock_ms=700)

@pytest.mark.kshare_broker(min_lock_ms=200)
def test_one(kshare_broker):
    kshare_broker.set_group_config("g", {{"{_SETTING}": "200"}})
    assert len(kshare_broker.state.cluster.topics["orders"].partitions) == 2

@pytest.mark.kshare_broker(min_lock_ms=200, nodes=2)
def test_several(kshare_cluster):
    kshare_cluster.set_group_config("g", {{"{_SETTING}": "200"}})
    assert len(kshare_cluster.state.cluster.nodes) == 2

def test_of_the_module(kshare_broker):
    with pytest.raises(Exception, match="700"):
        kshare_broker.set_group_config("g", {{"{_SETTING}": "200"}})
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_ini_file_sets_options_for_all_tests(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "kshare_broker_settings =\n    group.share.min.record.lock.duration.ms = 200\n"
        "    auto.create.topics.enable=false\n",
        f"""
import pytest

def test_it(kshare_broker):
    kshare_broker.set_group_config("g", {{"{_SETTING}": "200"}})
    assert kshare_broker.state.configs.broker("auto.create.topics.enable") == "false"

@pytest.mark.kshare_broker(settings={{"auto.create.topics.enable": "true"}})
def test_a_marker_goes_before_it(kshare_broker):
    kshare_broker.set_group_config("g", {{"{_SETTING}": "200"}})
    assert kshare_broker.state.configs.broker("auto.create.topics.enable") == "true"

@pytest.mark.kshare_broker(min_lock_ms=300)
def test_so_does_an_option(kshare_broker):
    with pytest.raises(Exception, match="300"):
        kshare_broker.set_group_config("g", {{"{_SETTING}": "200"}})
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_settings_in_a_file_apply_unless_the_ini_file_overrides_them(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("num.partitions=3\nmessage.max.bytes=3000\n")
    done = run(
        tmp_path,
        "kshare_broker_server_properties = server.properties\nkshare_broker_settings = num.partitions=4\n",
        """
def test_it(kshare_broker):
    configs = kshare_broker.state.configs
    assert configs.broker_number("num.partitions") == 4
    assert configs.broker_number("message.max.bytes") == 3000
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("ini", "message"),
    [
        ("kshare_broker_settings = num.partitions", "kshare_broker_settings: 'num.partitions' has no ="),
        (
            "kshare_broker_settings =\n    num.partitions=3\n    num.partitions = 4",
            "kshare_broker_settings: num.partitions is set twice",
        ),
        ("kshare_broker_server_properties = nowhere", "kshare_broker_server_properties: can't read "),
    ],
)
def test_invalid_ini_file_is_an_error(tmp_path: Path, ini: str, message: str) -> None:
    done = run(tmp_path, f"{ini}\n", "def test_it(kshare_broker): pass\n")
    assert done.returncode != 0
    assert message in done.stdout


def test_invalid_marker_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "",
        """
import pytest

@pytest.mark.kshare_broker(relase="4.1")
def test_misspelt(kshare_broker): pass

@pytest.mark.kshare_broker(release="4.2")
def test_unknown(kshare_cluster): pass

@pytest.mark.kshare_broker(settings=["num.partitions=3"])
def test_list(kshare_broker): pass

@pytest.mark.kshare_broker("4.1")
def test_unnamed(kshare_broker): pass
""",
    )
    assert done.returncode != 0
    said = "@pytest.mark.kshare_broker, or kshare_broker_settings in the ini file: "
    assert f"{said}there is no option 'relase'; did you mean release?" in done.stdout
    assert f"{said}release must be '4.1' or '4.3' or '4.4', not '4.2'" in done.stdout
    assert f"{said}settings must map names to strings" in done.stdout
    assert "kshare_broker takes options of kshare.testing.Broker by name, not '4.1'" in done.stdout
    assert "4 errors" in done.stdout


def test_fixture_runs_workers_with_the_options_of_the_broker(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "kshare_broker_settings =\n    num.partitions=3\n",
        """
import pytest
from kshare.worker import Worker

worker = Worker(group="g")
got = []

@worker.handler("orders")
async def ship(value: str):
    got.append(value)

@pytest.mark.kshare_broker(topics={"orders": 2})
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it(kshare_run_worker, backend):
    got.clear()
    with kshare_run_worker(worker, backend=backend) as running:
        assert running.broker.state.configs.broker("num.partitions") == "3"
        running.produce("orders", b"one", partition=1)
        running.wait_until_settled()
    assert got == ["one"]
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_each_process_of_xdist_has_brokers_of_its_own(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "",
        """
import os
import pytest
from kshare.testing import Broker

@pytest.fixture(scope="session")
def shared_broker():
    with Broker() as broker:
        yield broker

@pytest.mark.parametrize("number", range(4))
def test_it(shared_broker, kshare_broker, number):
    assert shared_broker.bootstrap != kshare_broker.bootstrap
    for broker in (shared_broker, kshare_broker):
        broker.create_topic(f"orders-{number}")
        broker.produce(f"orders-{number}", [os.environ["PYTEST_XDIST_WORKER"].encode()])
    topics = shared_broker.call(lambda: list(shared_broker.state.cluster.topics))
    seen = {record.value for topic in topics for record in shared_broker.records(topic)}
    assert seen == {os.environ["PYTEST_XDIST_WORKER"].encode()}
    assert kshare_broker.call(lambda: len(kshare_broker.state.cluster.topics)) == 1
""",
        "-n2",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
