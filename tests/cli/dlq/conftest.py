"""A broker with a topic of orders and a topic of dead letters."""

from __future__ import annotations

import pytest

from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, GROUP, SETTINGS
from tests.helpers.reading_groups import make_reader


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    kshare_broker.create_topic("orders", 2)
    kshare_broker.create_topic(GRAVE, 2, {f"{SETTINGS}group.enable": "true"})
    for group in (GROUP, "a", "b", "mine"):
        make_reader(kshare_broker, group, "orders", 2)
    return kshare_broker
