"""Error messages for missing permissions."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.net.permissions import Right, grant, missing_right, principal, refusal
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode

READ_GROUP = Right("Read", "group", "my orders")
BOB: dict[str, Any] = {"sasl_mechanism": "PLAIN", "username": "bob", "password": "secret"}


def test_missing_right_matches_the_error_code() -> None:
    needed = [READ_GROUP, Right("Read", "topic", "orders")]
    assert missing_right(ErrorCode.GROUP_AUTHORIZATION_FAILED, needed) == READ_GROUP
    assert missing_right(ErrorCode.TOPIC_AUTHORIZATION_FAILED, needed) == needed[1]
    assert missing_right(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, needed) is None
    assert missing_right(ErrorCode.NOT_COORDINATOR, needed) is None


def test_command_is_quoted_for_the_shell() -> None:
    settings = NetSettings.parse("[::1]:9092", **BOB)
    assert grant(READ_GROUP, settings) == (
        "kafka-acls.sh --bootstrap-server '[::1]:9092' --add --allow-principal User:bob --operation Read "
        "--group 'my orders'"
    )
    assert grant(Right("Describe", "cluster"), settings).endswith("--operation Describe --cluster")


def test_message_says_which_principal_lacks_which_right() -> None:
    settings = NetSettings.parse("localhost:9092", **BOB)
    error = refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, "joining", READ_GROUP, settings)
    assert str(error).startswith(
        "joining: GROUP_AUTHORIZATION_FAILED (User:bob lacks Read on group my orders; grant it: kafka-acls.sh "
    )
    assert (error.operation, error.resource, error.resource_name) == ("Read", "group", "my orders")
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "User:ANONYMOUS"),
        ({"tls": True}, "User:ANONYMOUS"),
        ({"tls": True, "cert_file": "me.pem"}, None),
        (BOB, "User:bob"),
        ({"sasl_mechanism": "OAUTHBEARER", "token": lambda: "t"}, None),
    ],
)
def test_principal_is_derived_from_the_settings_if_possible(
    options: dict[str, Any], name: str | None
) -> None:
    assert principal(NetSettings.parse("localhost:9092", **options)) == name
