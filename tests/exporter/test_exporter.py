"""The exporter at its start: it listens before it has reached the cluster, and says that it hasn't."""

from __future__ import annotations

import socket

import pytest

from kshare.exporter import exporter as exporter_module
from tests.exporter.running_exporter import exporting, labels
from tests.helpers.running_worker import get

pytestmark = pytest.mark.anyio


async def test_a_cluster_that_never_responses(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It accepts connections, so neither connecting nor the first request fails soon."""
    monkeypatch.setattr(exporter_module, "_SOON_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with exporting("{}:{}".format(*mute.getsockname())) as exporter:
            found = await exporter.until(lambda found: bool(caplog.records))
            assert found["kshare_exporter_up"] == {labels(): 0}
            assert found["kshare_exporter_failures_total"] == {labels(): 0}, "nothing has timed out yet"
            assert await get(exporter.port, "/ready") == (503, "the cluster hasn't been read yet\n")
            where = f"127.0.0.1:{exporter.port}"
    (said,) = [record.getMessage() for record in caplog.records if record.name == "kshare.exporter"]
    assert said.startswith(f"listening on {where}, but the cluster hasn't been read yet: ")
