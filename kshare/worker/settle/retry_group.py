"""The share group that reads retry topics: `<group>.retry`, which reads them from the beginning.

The group of the handlers may start at the end of topics, which is the default. Then it could miss copies: until a group
has settled its first record in a partition, brokers don't store where it has started, and when the partition moves, it
starts at the end again. So retry topics have a group of their own, with all settings of the handlers' group but this
one.
"""

from __future__ import annotations

import logging

from kshare.admin.configs import ConfigResource, alter, group_config
from kshare.admin.routing import Router
from kshare.errors import BrokerError, ConfigError, NotAuthorized
from kshare.wording import shell_word

log = logging.getLogger("kshare.worker")

_START = "share.auto.offset.reset"


def retry_group(group: str) -> str:
    return f"{group}.retry"


async def prepare_retry_group(router: Router, group: str) -> None:
    """Configure the group that reads the retry topics of this one. Raises ConfigError if it could miss copies."""
    name = retry_group(group)
    own = await _settings(router, group)
    wanted = {**own, _START: "earliest"}
    present = await _settings(router, name)
    changes = {key: value for key, value in wanted.items() if present.get(key) != value}
    if not changes:
        return
    try:
        await alter(router, ConfigResource.GROUP, name, changes, is_trial=False)
    except BrokerError as error:
        if not isinstance(error, NotAuthorized):
            raise
        if _START in changes and not await _starts_at_the_beginning(router, name):
            raise ConfigError(
                f"group {name}, which reads the retry topics of group {group}, must have {_START}=earliest, and we "
                f"aren't authorized to set it: run `kshare groups config set {shell_word(name)} {_START}=earliest`, "
                f"or grant AlterConfigs on group {name}"
            ) from error
        log.warning("group %s has other settings than group %s: %s", name, group, error)


async def _settings(router: Router, group: str) -> dict[str, str]:
    """The settings that were made for this group, as far as we are authorized to see them."""
    try:
        found = await group_config(router, group)
    except NotAuthorized:
        return {}
    return {
        setting.name: setting.value
        for setting in found
        if setting.source == "group" and setting.value is not None
    }


async def _starts_at_the_beginning(router: Router, group: str) -> bool:
    return (await _settings(router, group)).get(_START) == "earliest"
