"""Whether brokers write to a group's dead-letter topic: what decides, and what a reading of a cluster finds."""

from __future__ import annotations

from functools import partial

import pytest

from kshare.admin.routing import Router
from kshare.broker.settings import Resource
from kshare.monitor.collect import Collector
from kshare.monitor.dead_letter_topics import GROUP_ENABLE, DeadLetterFlaw, dead_letter_flaw
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker
from tests.helpers.rejecting import reject

_PREFIX = "errors.deadletterqueue.topic.name.prefix"
_MAY_CREATE = "errors.deadletterqueue.auto.create.topics.enable"


@pytest.mark.parametrize(
    ("brokers", "settings", "flaw"),
    [
        ({}, {GROUP_ENABLE: "true"}, None),
        ({_PREFIX: "dlq."}, {GROUP_ENABLE: "true"}, None),
        ({_PREFIX: "dead."}, {GROUP_ENABLE: "true"}, DeadLetterFlaw.NAME),
        ({_MAY_CREATE: "false"}, None, DeadLetterFlaw.MISSING),
        ({_MAY_CREATE: "true"}, None, None),
        ({_PREFIX: "dead.", _MAY_CREATE: "true"}, None, DeadLetterFlaw.NAME),
        ({}, {GROUP_ENABLE: "false"}, DeadLetterFlaw.SHUT),
    ],
)
def test_brokers_write_only_to_topics_that_are_there_and_accept_dead_letters(
    brokers: dict[str, str | None], settings: dict[str, str | None] | None, flaw: DeadLetterFlaw | None
) -> None:
    assert dead_letter_flaw("dlq.orders", brokers, settings) is flaw


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_reading_finds_what_is_wrong_with_a_groups_dead_letter_topic(
    kshare_broker: Broker, anyio_backend: str
) -> None:
    topics = {"fine": "dlq.fine", "shut": "dlq.shut", "missing": "dlq.none", "misnamed": "grave", "none": ""}
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dlq.fine", settings={GROUP_ENABLE: "true"})
    kshare_broker.create_topic("dlq.shut")
    kshare_broker.produce("orders", [b"x"])
    for group, topic in topics.items():
        kshare_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        reject(kshare_broker.bootstrap, group, "orders", 1)
        chosen = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": topic}
        # Set directly: the broker's own API refuses some of them.
        kshare_broker.call(partial(kshare_broker.state.configs.replace, Resource.GROUP, group, chosen))
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        found = await Collector(Router(pool, 10)).read()
    assert {group.group: group.dead_letter_flaw for group in found.groups} == {
        "fine": None,
        "shut": DeadLetterFlaw.SHUT,
        "missing": DeadLetterFlaw.MISSING,
        "misnamed": DeadLetterFlaw.NAME,
        "none": None,
    }
