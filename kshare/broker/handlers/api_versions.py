"""ApiVersions v0-5: the supported APIs, from the table of handlers and the emulated release.

v0: the first version.
v1: the response adds ThrottleTimeMs.
v2: when a quota is exceeded, the response is sent before throttling.
v3: the request adds ClientSoftwareName and ClientSoftwareVersion; the response adds SupportedFeatures,
    FinalizedFeaturesEpoch, FinalizedFeatures and ZkMigrationReady; flexible, with compact lengths and tagged
    fields.
v4: features whose minimum level is 0 are returned unchanged.
v5: clients may send the id of the node that they expect; the request adds ClusterId and NodeId. Since Kafka 4.4.
"""

from __future__ import annotations

import re

from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kshare.protocol.messages.api_versions_response import (
    ApiVersion,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FEATURES_SINCE, _ZERO_SINCE = 3, 4


async def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= _FEATURES_SINCE:
        names = (request.client_software_name, request.client_software_version)
        if not all(_NAME.fullmatch(name) for name in names):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        call.connection.software = names
    return response(call)


def response(call: Call, error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    """The response, which is also sent with an error for a request in an unsupported version."""
    profile = call.broker.profile
    apis = [ApiVersion(key, first, last) for key, (first, last) in profile.versions.items()]
    response = ApiVersionsResponse(error, apis)
    if call.version >= _FEATURES_SINCE and not error:
        shift = 0 if call.version >= _ZERO_SINCE else 1
        response.supported_features = [
            SupportedFeatureKey(name, max(minimum, shift), maximum)
            for name, (minimum, maximum) in profile.features.items()
        ]
        response.finalized_features_epoch = 1
        response.finalized_features = [
            FinalizedFeatureKey(name, maximum, maximum) for name, (_, maximum) in profile.features.items()
        ]
    return response
