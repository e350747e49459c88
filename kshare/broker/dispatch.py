"""The table of handlers by API, which also determines the ApiVersions response.

Handlers are imported when first needed, so that a broker starts quickly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

from kshare.broker.connection import Call
from kshare.broker.profiles import Profile
from kshare.protocol.message import Message

Handle = Callable[[Any, Call], Awaitable[Message | None]]

HANDLERS = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    42: "delete_groups",
    44: "incremental_alter_configs",
    47: "offset_delete",
    55: "describe_quorum",
    60: "describe_cluster",
    61: "describe_producers",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    71: "get_telemetry_subscriptions",
    72: "push_telemetry",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    83: "initialize_share_group_state",
    84: "read_share_group_state",
    85: "write_share_group_state",
    86: "delete_share_group_state",
    87: "read_share_group_state_summary",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
}
"""API key → module in `handlers`."""


@cache
def handler_for(api_key: int) -> Handle:
    module = import_module(f"kshare.broker.handlers.{HANDLERS[api_key]}")
    handle: Handle = module.handle
    return handle


def offered(profile: Profile) -> dict[int, tuple[int, int]]:
    """API key → first and last version that this broker supports."""
    return {key: versions for key, versions in sorted(profile.versions.items()) if key in HANDLERS}


def is_offered(profile: Profile, api_key: int, version: int) -> bool:
    first, last = profile.versions.get(api_key, (0, -1))
    return api_key in HANDLERS and first <= version <= last
