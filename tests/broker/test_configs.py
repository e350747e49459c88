"""Broker, topic and group settings: valid values, defaults and precedence."""

from __future__ import annotations

import pytest

from kshare.broker.config_entries import ConfigSource, entries
from kshare.broker.configs import Configs, extended
from kshare.broker.request_error import RequestError
from kshare.broker.settings import TABLES, Resource


def test_every_default_is_a_valid_value() -> None:
    configs = Configs()
    for table in TABLES.values():
        for setting in table.values():
            setting.check(configs.default(setting))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "sometimes"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.auto.offset.reset", "by_duration:PT"),
        ("share.isolation.level", "none"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.record.lock.duration.ms", "soon"),
        ("share.partition.max.record.locks", "99"),
        ("share.delivery.count.limit", "11"),
        ("share.renew.acknowledge.enable", "perhaps"),
        ("share.nonsense", "1"),
    ],
)
def test_invalid_group_settings_are_refused(name: str, value: str) -> None:
    configs = Configs()
    with pytest.raises(RequestError, match="INVALID_CONFIG"):
        configs.replace(Resource.GROUP, "g", {name: value})
    assert configs.of(Resource.GROUP, "g") == {}


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H30M", "by_duration:P1DT2.5S"])
def test_valid_offset_resets_are_accepted(value: str) -> None:
    configs = Configs()
    configs.replace(Resource.GROUP, "g", {"share.auto.offset.reset": value})
    assert configs.group("g", "share.auto.offset.reset") == value


def test_group_settings_stay_within_the_brokers_limits() -> None:
    configs = Configs({"group.share.min.record.lock.duration.ms": "1000"})
    assert configs.group_number("g", "share.record.lock.duration.ms") == 30000
    configs.replace(Resource.GROUP, "g", {"share.record.lock.duration.ms": "1500"})
    assert configs.group_number("g", "share.record.lock.duration.ms") == 1500
    configs.static["group.share.min.record.lock.duration.ms"] = "2000"
    assert configs.group_number("g", "share.record.lock.duration.ms") == 2000


def test_topics_have_the_brokers_least_number_of_replicas_in_sync() -> None:
    configs = Configs({"min.insync.replicas": "2"})
    assert configs.topic_number("orders", "min.insync.replicas") == 2
    configs.replace(Resource.BROKER, "", {"min.insync.replicas": "3"})
    assert configs.topic_number("orders", "min.insync.replicas") == 3


def test_sources_and_synonyms_of_values() -> None:
    configs = Configs({"message.max.bytes": "5000"})
    configs.replace(Resource.TOPIC, "t", {"max.message.bytes": "4000"})
    found = {entry.name: entry for entry in entries(configs, Resource.TOPIC, "t")}
    entry = found["max.message.bytes"]
    assert [(each.value, each.source) for each in entry.synonyms] == [
        ("4000", ConfigSource.TOPIC),
        ("5000", ConfigSource.STATIC),
        ("1048588", ConfigSource.DEFAULT),
    ]
    assert found["retention.ms"].source is ConfigSource.DEFAULT
    assert list(entries(configs, Resource.BROKER, "")) == []
    configs.replace(Resource.BROKER, "", {"message.max.bytes": "6000"})
    assert [(each.name, each.value) for each in entries(configs, Resource.BROKER, "")] == [
        ("message.max.bytes", "6000")
    ]
    with pytest.raises(RequestError, match="dynamically"):
        configs.replace(Resource.BROKER, "", {"num.partitions": "3"})


def test_list_values_are_appended_and_removed() -> None:
    policy = TABLES[Resource.TOPIC]["cleanup.policy"]
    assert extended(Resource.TOPIC, policy, "delete", "compact", is_append=True) == "delete,compact"
    assert extended(Resource.TOPIC, policy, "delete,compact", "delete", is_append=False) == "compact"
    with pytest.raises(RequestError, match="not a list"):
        extended(Resource.TOPIC, TABLES[Resource.TOPIC]["retention.ms"], "1", "2", is_append=True)


def test_unknown_broker_setting_is_refused() -> None:
    with pytest.raises(RequestError, match="Unknown broker config name"):
        Configs({"no.such.thing": "1"})


def test_settings_of_dead_letters_exist_only_in_releases_that_have_them() -> None:
    older = Configs(has_dead_letters=False)
    for resource in (Resource.TOPIC, Resource.GROUP, Resource.BROKER):
        known, before = (
            {each.name for each in entries(configs, resource, "1")} for configs in (Configs(), older)
        )
        assert before < known
        assert all(name.startswith("errors.deadletterqueue.") for name in known - before)
    with pytest.raises(RequestError, match="Unknown topic config name"):
        older.check(Resource.TOPIC, {"errors.deadletterqueue.group.enable": "true"})
