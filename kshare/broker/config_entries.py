"""Configs as in the responses of DescribeConfigs and CreateTopics: value, source and synonyms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from kshare.broker.configs import Configs
from kshare.broker.settings import CHANGEABLE, Resource, Setting, SettingType


class ConfigSource(IntEnum):
    """The source of a value, with Kafka's number."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


_OWN = {
    Resource.TOPIC: ConfigSource.TOPIC,
    Resource.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    Resource.GROUP: ConfigSource.GROUP,
}


@dataclass(slots=True, frozen=True)
class Synonym:
    name: str
    value: str
    source: ConfigSource


@dataclass(slots=True, frozen=True)
class DescribedConfig:
    name: str
    value: str
    kind: SettingType
    read_only: bool
    synonyms: tuple[Synonym, ...]
    """The effective value, and then those that it overrides."""

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT


def entries(configs: Configs, resource: Resource, of: str) -> Iterator[DescribedConfig]:
    """All settings of a topic, group or broker; for broker "", only those that were set for all brokers."""
    for setting in configs.tables[resource].values():
        if resource is Resource.BROKER:
            synonyms = _broker_synonyms(configs, setting)
            if not of:
                synonyms = tuple(each for each in synonyms if each.source is ConfigSource.ALL_BROKERS)
                if not synonyms:
                    continue
            yield DescribedConfig(
                setting.name, synonyms[0].value, setting.kind, setting.name not in CHANGEABLE, synonyms
            )
        else:
            synonyms = _synonyms(configs, resource, of, setting)
            value = synonyms[0].value
            if resource is Resource.CLIENT_METRICS:  # for these, Kafka doesn't list defaults as synonyms
                synonyms = tuple(each for each in synonyms if each.source is ConfigSource.CLIENT_METRICS)
            yield DescribedConfig(setting.name, value, setting.kind, False, synonyms)


def _synonyms(configs: Configs, resource: Resource, of: str, setting: Setting) -> tuple[Synonym, ...]:
    own = configs.of(resource, of).get(setting.name)
    found = () if own is None else (Synonym(setting.name, own, _OWN[resource]),)
    if setting.inherits:
        return found + _broker_synonyms(configs, configs.tables[Resource.BROKER][setting.inherits])
    return (*found, Synonym(setting.name, setting.default, ConfigSource.DEFAULT))


def _broker_synonyms(configs: Configs, setting: Setting) -> tuple[Synonym, ...]:
    name = setting.name
    values = (
        (configs.of(Resource.BROKER, "").get(name), ConfigSource.ALL_BROKERS),
        (configs.static.get(name), ConfigSource.STATIC),
        (setting.default, ConfigSource.DEFAULT),
    )
    return tuple(Synonym(name, value, source) for value, source in values if value is not None)
