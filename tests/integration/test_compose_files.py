"""The files in examples/kafka start brokers of the releases that we test with, with settings that these know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kshare.admin.configs import ConfigResource, describe
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from tools.kafka.cluster import Cluster
from tools.kafka.jars import RELEASES

FILES = sorted((Path(__file__).parents[2] / "examples" / "kafka").glob("compose-*.yaml"))


def broker_of(file: Path) -> dict[str, Any]:
    """The only service of a file."""
    (service,) = yaml.safe_load(file.read_text(encoding="utf-8"))["services"].values()
    found: dict[str, Any] = service
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_file_names_a_tested_release(file: Path) -> None:
    image, release = broker_of(file)["image"].split(":")
    assert image == "apache/kafka"
    assert release in RELEASES
    assert file.stem == f"compose-{release.rpartition('.')[0]}"


@pytest.mark.kafka
@pytest.mark.anyio
async def test_brokers_know_all_settings(kafka: Cluster) -> None:
    async with Pool(NetSettings.parse(kafka.bootstrap)) as pool:
        entries = await describe(Router(pool, 10), ConfigResource.BROKER, "1")
    known = {entry.name for entry in entries}
    assert FILES
    for file in FILES:
        names = {
            name.removeprefix("KAFKA_").replace("_", ".").lower() for name in broker_of(file)["environment"]
        }
        assert names <= known, file.name
