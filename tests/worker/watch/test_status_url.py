"""Only URLs of status pages are accepted, whoever has written them."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.worker.watch.status_url import StatusUrl, parse_status_url


@pytest.mark.parametrize(
    ("text", "url", "written"),
    [
        ("http://Shop-1:8080", StatusUrl("http", "shop-1", 8080), "http://shop-1:8080/status"),
        ("http://10.0.0.1/", StatusUrl("http", "10.0.0.1", 80), "http://10.0.0.1:80/status"),
        (
            "https://a_b.shop.svc./status",
            StatusUrl("https", "a_b.shop.svc.", 443),
            "https://a_b.shop.svc.:443/status",
        ),
        ("http://[::1]:8080/status", StatusUrl("http", "::1", 8080), "http://[::1]:8080/status"),
    ],
)
def test_urls(text: str, url: StatusUrl, written: str) -> None:
    assert parse_status_url(text) == url
    assert str(url) == written
    assert parse_status_url(written) == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must begin with http"),
        ("ftp://host:80", "must begin with http"),
        ("file:///etc/passwd", "must begin with http"),
        ("host:8080", "must begin with http"),
        ("http://", "'' is not a host"),
        ("http://user:secret@host:80", "must not have a username"),
        ("http://host:80/admin", "the path must be /status"),
        ("http://host:80/status?x=1", "without a query or a fragment"),
        ("http://host:80/status#x", "without a query or a fragment"),
        ("http://host:80/status?", "without a query or a fragment"),
        ("http://host:99999", "Port out of range"),
        ("http://host:0", "0 is not a port"),
        ("http://host:8080\r\nHost: x", "characters that URLs don't have"),
        ("http://ho st:8080", "characters that URLs don't have"),
        ("http://höst:8080", "characters that URLs don't have"),
        ("http://-x:8080", "is not a host"),
        ("http://a..b:8080", "is not a host"),
        ("http://[::1:8080", "Invalid IPv6"),
        ("http://[fe80::1%eth0]:8080", "isn't the URL of a worker"),
        ("http://" + "a" * 300, "longer than 300"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match="isn't the URL of a worker") as refused:
        parse_status_url(text)
    assert reason in str(refused.value)
