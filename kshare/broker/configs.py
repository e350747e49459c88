"""Configs of topics, groups and brokers, with their defaults.

Decides whether a change is allowed. All nodes have the same broker settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshare.broker.client_match import parse_match
from kshare.broker.notifiers import Notifier
from kshare.broker.offset_reset import OFFSET_RESET, is_offset_reset
from kshare.broker.request_error import RequestError
from kshare.broker.server_properties import sort_properties
from kshare.broker.settings import CHANGEABLE, TABLES, Resource, Setting, SettingType, tables
from kshare.broker.start_checks import check_together
from kshare.protocol.error_codes import ErrorCode


class Configs:
    """All settings of a release, with or without those of dead letters. `changed` fires after every change."""

    def __init__(
        self, broker_settings: Mapping[str, str] | None = None, *, has_dead_letters: bool = True
    ) -> None:
        self.tables = tables(has_dead_letters=has_dead_letters)
        self.changed = Notifier()
        self.version = 0
        """Increases with every change of a config, for callers that cache values."""
        self.static: dict[str, str] = {}
        self.chosen: dict[tuple[Resource, str], dict[str, str]] = {}
        given = sort_properties(broker_settings or {}, self.tables[Resource.BROKER])
        self.without_effect = given.without_effect
        """Settings that Kafka has, but that mean nothing here."""
        for name, value in given.obeyed.items():
            self.setting(Resource.BROKER, name).check(value)
            self.static[name] = value
        check_together(self.broker)

    # --- reading

    def setting(self, resource: Resource, name: str) -> Setting:
        found = self.tables[resource].get(name)
        if found is None and resource is Resource.CLIENT_METRICS:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        if found is None:
            what = resource.name.lower()
            raise RequestError(ErrorCode.INVALID_CONFIG, f"Unknown {what} config name: {name}")
        return found

    def broker(self, name: str) -> str:
        dynamic = self.chosen.get((Resource.BROKER, ""), {})
        return dynamic.get(name) or self._static(name)

    def _static(self, name: str) -> str:
        return self.static.get(name, TABLES[Resource.BROKER][name].default)

    def broker_number(self, name: str) -> int:
        return int(self.broker(name))

    def topic(self, topic: str, name: str) -> str:
        return self._value(Resource.TOPIC, topic, name)

    def topic_number(self, topic: str, name: str) -> int:
        return int(self.topic(topic, name))

    def group(self, group: str, name: str) -> str:
        return self._value(Resource.GROUP, group, name)

    def client_metrics(self, subscription: str, name: str) -> str:
        return self._value(Resource.CLIENT_METRICS, subscription, name)

    def group_number(self, group: str, name: str) -> int:
        """A group's number, limited to the broker's bounds, which may have become narrower since it was set."""
        setting = TABLES[Resource.GROUP][name]
        value = int(self.group(group, name))
        if setting.bounds:
            minimum, maximum = map(self.broker_number, setting.bounds)
            value = min(max(value, minimum), maximum)
        return value

    def is_on(self, resource: Resource, of: str, name: str) -> bool:
        value = self.broker(name) if resource is Resource.BROKER else self._value(resource, of, name)
        return value.lower() == "true"

    def default(self, setting: Setting) -> str:
        return self.broker(setting.inherits) if setting.inherits else setting.default

    def _value(self, resource: Resource, of: str, name: str) -> str:
        own = self.chosen.get((resource, of), {})
        return own[name] if name in own else self.default(TABLES[resource][name])

    # --- changing

    def check(self, resource: Resource, values: Mapping[str, str]) -> None:
        """Raises RequestError for the first invalid value."""
        for name, value in values.items():
            setting = self.setting(resource, name)
            setting.check(value)
            if setting.bounds:
                minimum, maximum = map(self.broker_number, setting.bounds)
                if not minimum <= int(value) <= maximum:
                    raise setting.refusal(value, f"the broker allows {minimum} to {maximum}")
            if name == OFFSET_RESET and not is_offset_reset(value):
                raise setting.refusal(value, "must be earliest, latest or by_duration:PnDTnHnMn.nS")
            if resource is Resource.CLIENT_METRICS:
                _check_client_metrics(name, value)
            if resource is Resource.BROKER and name not in CHANGEABLE:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {name}"
                )
        if resource is Resource.BROKER:
            check_together(lambda name: values.get(name) or self._static(name))

    def replace(
        self, resource: Resource, of: str, values: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Replace all values that are set for one topic, group or broker, or only check the new ones."""
        self.check(resource, values)
        if validate_only:
            return
        if values:
            self.chosen[resource, of] = dict(values)
        else:
            self.chosen.pop((resource, of), None)
        self._notify()

    def forget(self, resource: Resource, of: str) -> None:
        if self.chosen.pop((resource, of), None) is not None:
            self._notify()

    def _notify(self) -> None:
        self.version += 1
        self.changed.fire()

    def configured(self, resource: Resource) -> list[str]:
        """The resources of a type for which values are set."""
        return [name for kind, name in self.chosen if kind is resource]

    def of(self, resource: Resource, of: str) -> dict[str, str]:
        """The values that are set, as a copy."""
        return dict(self.chosen.get((resource, of), {}))


def extended(resource: Resource, setting: Setting, current: str, value: str, is_append: bool) -> str:
    """The value of a list setting after items were added or removed. Kafka doesn't do that for client metrics."""
    if setting.kind is not SettingType.LIST or resource is Resource.CLIENT_METRICS:
        raise RequestError(
            ErrorCode.INVALID_CONFIG, f"Can't append or subtract: {setting.name} is not a list"
        )
    items = [each for each in current.split(",") if each]
    named = [each for each in value.split(",") if each]
    if is_append:
        return ",".join([*items, *(each for each in named if each not in items)])
    return ",".join(each for each in items if each not in named)


def _check_client_metrics(name: str, value: str) -> None:
    if name == "match":
        parse_match(value)
    elif name == "interval.ms" and not 100 <= int(value) <= 3_600_000:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
