"""What the command line says about a worker takes precedence over the environment, its file and code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.cli.terminal.failure import Failure
from kshare.cli.worker.app_options import AppOptions
from kshare.errors import ConfigError

APP = """
from kshare.worker import Worker

worker = Worker("code:1", group="shippers", client_id="code", drain_timeout=1)

@worker.handler("orders")
async def ship(value: bytes) -> None: ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop.toml").write_text("[worker]\nclient_id = 'file'\ndrain_timeout = 2\n")
    (tmp_path / "client.properties").write_text("client.id=properties\nbootstrap.servers=properties:1\n")
    return tmp_path


def test_the_order_of_the_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ordered_app.py").write_text(APP)
    monkeypatch.setenv("KSHARE_WORKER_DRAIN_TIMEOUT", "3")
    file, properties = folder / "shop.toml", folder / "client.properties"
    worker = AppOptions("ordered_app", file=file).load()
    assert (worker.bootstrap_servers, worker.connection, worker.drain_timeout) == (
        "code:1",
        {"client_id": "file"},
        3,
    )
    worker = AppOptions("ordered_app", "line:1", properties, file, 4).load()
    assert (worker.bootstrap_servers, worker.connection, worker.drain_timeout) == (
        "line:1",
        {"client_id": "properties"},
        4,
    )


def test_arguments_pass_on_what_was_given(folder: Path) -> None:
    assert AppOptions("shop").arguments() == []
    options = AppOptions("shop", "line:1", Path("a"), Path("b"), 1.5, "workers")
    assert options.arguments() == [
        *("--bootstrap-server", "line:1", "--command-config", "a"),
        *("--config", "b", "--drain-timeout", "1.5", "--announce", "workers"),
    ]


def test_announcing_needs_an_endpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "announced_app.py").write_text(APP)
    monkeypatch.setenv("KSHARE_WORKER_ANNOUNCE", "from-the-environment")
    with pytest.raises(ConfigError, match="set http"):
        AppOptions("announced_app").load()
    monkeypatch.setenv("KSHARE_WORKER_HTTP", "127.0.0.1:0")
    assert AppOptions("announced_app").load().announce == "from-the-environment"
    assert AppOptions("announced_app", announce="workers").load().announce == "workers"
    monkeypatch.setenv("KSHARE_WORKER_ANNOUNCE", "false")
    assert AppOptions("announced_app").load().announce is None


def test_without_a_cluster_nothing_runs(folder: Path) -> None:
    (folder / "no_cluster_app.py").write_text(APP.replace('"code:1", ', ""))
    with pytest.raises(Failure, match="pass --bootstrap-server localhost:9092, set KSHARE_BOOTSTRAP_SERVER"):
        AppOptions("no_cluster_app").load()
