"""The configuration of groups and topics: reads and changes it.

Decides what sources of values are called, and which broker settings bound which group settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum

from kshare.admin.expected_rows import expected_row, left_out
from kshare.admin.results import ConfigEntry
from kshare.admin.routing import Router, response_error
from kshare.errors import BrokerError, ConfigError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from kshare.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from kshare.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource


class ConfigResource(IntEnum):
    TOPIC = 2
    BROKER = 4
    GROUP = 32


_SET, _UNSET = 0, 1
_SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "static", 5: "default", 8: "group"}
_BOUNDED = "share."
_RESOURCES_PER_REQUEST = 200


async def group_config(router: Router, group: str) -> list[ConfigEntry]:
    """The configuration of a group, with bounds if we may read the brokers' configuration."""
    if not group:
        raise ConfigError("a group's name must not be empty")
    found = await describe(router, ConfigResource.GROUP, group)
    entries = [entry for entry in found if entry.name.startswith((_BOUNDED, "errors."))]
    names = [f"group.share.{end}.{_bare(entry.name)}" for entry in entries for end in ("min", "max")]
    bounds = await broker_values(router, names)
    return [
        replace(
            entry,
            lowest=bounds.get(f"group.share.min.{_bare(entry.name)}"),
            highest=bounds.get(f"group.share.max.{_bare(entry.name)}"),
        )
        for entry in entries
    ]


async def describe(
    router: Router,
    resource: ConfigResource,
    name: str,
    *,
    node: int | None = None,
    keys: list[str] | None = None,
) -> list[ConfigEntry]:
    request = DescribeConfigsRequest([DescribeConfigsResource(resource, name, keys)])
    subject, right = f"{resource.name.lower()} {name}", _right("DescribeConfigs", resource, name)
    response = await router.ask_node(
        node,
        request,
        lambda response: [
            response_error(row, f"configuration of {subject}", right) for row in response.results
        ],
    )
    found = expected_row(response.results, "DescribeConfigs", subject)
    return sorted((_entry(row) for row in found.configs), key=lambda entry: entry.name)


async def describe_many(
    router: Router, resource: ConfigResource, names: Iterable[str], keys: list[str]
) -> dict[str, dict[str, str | None]]:
    """These settings of many groups or topics, with few requests; without those that we may not read."""
    found = await describe_each(router, resource, names, keys)
    return {name: values for name, values in found.items() if isinstance(values, dict)}


async def describe_each(
    router: Router, resource: ConfigResource, names: Iterable[str], keys: list[str]
) -> dict[str, dict[str, str | None] | int]:
    """As `describe_many`, but with the error code of those that can't be read."""
    wanted = list(names)
    found: dict[str, dict[str, str | None] | int] = {}
    for start in range(0, len(wanted), _RESOURCES_PER_REQUEST):
        some = wanted[start : start + _RESOURCES_PER_REQUEST]
        request = DescribeConfigsRequest([DescribeConfigsResource(resource, name, keys) for name in some])
        response = await router.ask_any(request, lambda response: ())
        for name in {*some} - {result.resource_name for result in response.results}:
            raise left_out("DescribeConfigs", f"{resource.name.lower()} {name}")
        for result in response.results:
            values = {row.name: _entry(row).value for row in result.configs}
            found[result.resource_name] = result.error_code or values
    return found


async def alter(
    router: Router, resource: ConfigResource, name: str, changes: Mapping[str, str | None], *, is_trial: bool
) -> None:
    """Make all changes or none; None removes a setting. A value is set even if it equals the default."""
    if not changes:
        raise ConfigError('no changes are given: write {"share.auto.offset.reset": "earliest"}')
    rows = [
        AlterableConfig(key, _UNSET if value is None else _SET, None if value is None else str(value))
        for key, value in changes.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource, name, rows)], is_trial)
    action = f"changing the configuration of {resource.name.lower()} {name}"
    right = _right("AlterConfigs", resource, name)
    await router.ask_any(
        request, lambda response: [response_error(row, action, right) for row in response.responses]
    )


def _right(operation: str, resource: ConfigResource, name: str) -> Right:
    """Broker configurations need a right on the cluster."""
    match resource:
        case ConfigResource.TOPIC:
            return Right(operation, "topic", name)
        case ConfigResource.GROUP:
            return Right(operation, "group", name)
    return Right(operation, "cluster")


def _entry(row: DescribeConfigsResourceResult) -> ConfigEntry:
    value = None if row.is_sensitive else row.value
    source = _SOURCES.get(row.config_source, f"source {row.config_source}")
    return ConfigEntry(row.name, value, source, row.read_only)


def _bare(name: str) -> str:
    return name.removeprefix(_BOUNDED)


async def topic_values(router: Router, topic: str, names: Iterable[str]) -> dict[str, str | None]:
    """The values of these settings of a topic."""
    entries = await describe(router, ConfigResource.TOPIC, topic, keys=list(names))
    return {entry.name: entry.value for entry in entries}


async def broker_values(router: Router, names: Iterable[str]) -> dict[str, str | None]:
    """Ask one broker, since all should have the same bounds. Returns nothing if we aren't authorized to read them."""
    node = await router.any_node()
    try:
        entries = await describe(router, ConfigResource.BROKER, str(node), node=node, keys=list(names))
    except BrokerError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise
    return {entry.name: entry.value for entry in entries}
