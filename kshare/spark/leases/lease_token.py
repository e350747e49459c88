"""Reading the records of a lease: the token that identifies it, and the reader that Spark creates from the token.

The token holds all that tasks need: how to reach the cluster, which ranges, and which member of the group holds them.
So it works in any process, and must be kept as secret as the passwords that may be in it.

Decides whether a lease is still valid: its member is in the group exactly as long as the `with` block lasts. Never
acquires, renews or settles.
"""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kshare.errors import ConfigError, KshareError
from kshare.spark.executor.connections import connections
from kshare.spark.executor.reader import read_arrow
from kshare.spark.existence import is_member
from kshare.spark.options import ReadOptions
from kshare.spark.plain_errors import with_plain_errors
from kshare.spark.ranges import RecordRange, Token, TokenError
from kshare.spark.splitting import RangePartition, frame_tasks


class LeaseEnded(KshareError):
    """The lease has ended: its records may have been delivered to others."""


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """The content of a token."""

    given: Mapping[str, str]
    """The options of the lease, as the user wrote them."""
    member_id: str
    ranges: tuple[RecordRange, ...]

    def encode(self) -> str:
        value = {
            "options": dict(self.given),
            "member": self.member_id,
            "ranges": Token(acquired=self.ranges).to_json(),
        }
        return urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode()

    @classmethod
    def decode(cls, text: str) -> LeaseToken:
        try:
            value = json.loads(zlib.decompress(urlsafe_b64decode(text)))
            ranges = Token.from_json(value["ranges"]).acquired
            return cls(value["options"], value["member"], ranges)
        except (ValueError, KeyError, TypeError, zlib.error, TokenError):
            raise ConfigError(
                'this is not the token of a lease: write option("lease", lease.token)'
            ) from None

    def options(self, overrides: Mapping[str, str]) -> ReadOptions:
        """The options of a DataFrame: those of the lease, overridden by those passed along with its token."""
        other_options = {name: value for name, value in overrides.items() if name.lower() != "lease"}
        named = {name.lower() for name in other_options}
        kept = {name: value for name, value in self.given.items() if name.lower() not in named}
        return ReadOptions.parse({**kept, **other_options}, is_streaming=False)


class LeaseReader(DataSourceReader):
    """Planning and tasks fail once the lease has ended: others may be processing its records."""

    def __init__(self, token: LeaseToken, options: ReadOptions) -> None:
        self._options = options
        self._token = token

    @with_plain_errors
    def partitions(self) -> Sequence[RangePartition]:
        self._check()
        return frame_tasks(self._token.ranges, self._options.task_limits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        self._check()
        return read_arrow(self._options, partition.ranges)

    def _check(self) -> None:
        shared = connections(self._options.net_settings())
        group = self._options.group
        if not shared.submit(is_member, shared.router, group, self._token.member_id).result():
            raise LeaseEnded(
                f"the lease on records of group {group} has ended: its `with` block was left, or its process has "
                "ended. Other consumers may have the records now: finish all actions within the block"
            )
