"""`check`: runs one check of the doctor on the embedded broker, and returns what it found."""

from __future__ import annotations

from typing import Protocol

import anyio
import pytest

from kshare.admin.routing import Router
from kshare.doctor.check_result import CheckResult
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.examine import Check
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker


class RunCheck(Protocol):
    def __call__(self, check: Check, *groups: str) -> list[CheckResult]: ...


@pytest.fixture
def check(kshare_broker: Broker) -> RunCheck:
    async def run(check: Check, groups: tuple[str, ...]) -> list[CheckResult]:
        async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
            info = ClusterInfo(pool, Router(pool, 10), groups)
            await info.discover()
            return [finding async for finding in check(info)]

    return lambda check, *groups: anyio.run(run, check, groups)
