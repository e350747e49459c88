"""The API versions that a broker supports, and which version of a request to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from kshare.errors import Unsupported
from kshare.protocol.message import Request
from kshare.protocol.messages import ApiVersionsResponse

VersionRange: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """The versions on one connection: listeners of the same broker may differ."""

    ranges: Mapping[int, VersionRange]
    """By API key: first and last version that the broker supports."""
    features: Mapping[str, int]
    """Finalized feature levels of the cluster."""
    possible_features: Mapping[str, int]
    """The highest feature levels that the broker supports."""

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> Self:
        return cls(
            {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            {feature.name: feature.max_version for feature in response.supported_features},
        )

    def common(self, request: type[Request[Any]]) -> VersionRange | None:
        """First and last version that both sides support, or None."""
        supported = self.ranges.get(request.API_KEY)
        if supported is None:
            return None
        first, last = max(supported[0], request.VERSIONS[0]), min(supported[1], request.VERSIONS[1])
        return (first, last) if first <= last else None

    def best(self, request: type[Request[Any]], peer: str) -> int:
        """The highest version that both sides support."""
        common = self.common(request)
        if common is None:
            raise Unsupported(self.explain_missing(request, peer))
        return common[1]

    def explain_missing(self, request: type[Request[Any]], peer: str) -> str:
        name = request.NAME.removesuffix("Request")
        supported = self.ranges.get(request.API_KEY)
        if supported is None:
            return f"{peer} doesn't support {name}: its Kafka is too old, or this listener doesn't serve it"
        return (
            f"{peer} supports {name} {_text(supported)}, kshare {_text(request.VERSIONS)}: no version in common; "
            + ("upgrade the broker" if supported[1] < request.VERSIONS[0] else "upgrade kshare")
        )


def _text(versions: VersionRange) -> str:
    return f"v{versions[0]}" if versions[0] == versions[1] else f"v{versions[0]} to v{versions[1]}"
