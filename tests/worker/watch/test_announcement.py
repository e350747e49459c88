"""What is announced, and at which URL."""

from __future__ import annotations

import json

import pytest

from kshare.errors import ConfigError
from kshare.worker import Worker
from kshare.worker.watch.announcement import (
    ANNOUNCEMENT_SCHEMA,
    OWN_URL,
    AnnouncedHandler,
    Announcement,
    announced_url,
    announcement_value,
    check_announce,
    require_endpoint,
)
from kshare.worker.watch.process_identity import identify_process


@pytest.mark.parametrize(
    ("template", "host", "url"),
    [
        (OWN_URL, "10.0.0.7", "http://10.0.0.7:8081/status"),
        (OWN_URL, "0.0.0.0", "http://shop-1:8081/status"),
        (OWN_URL, "::", "http://shop-1:8081/status"),
        (OWN_URL, "::1", "http://[::1]:8081/status"),
        ("https://{host}.workers.svc", "0.0.0.0", "https://shop-1.workers.svc:443/status"),
        ("http://proxy:{port}/status", "127.0.0.1", "http://proxy:8081/status"),
    ],
)
def test_urls(template: str, host: str, url: str) -> None:
    assert str(announced_url(template, (host, 8081), "shop-1")) == url


@pytest.mark.parametrize("url", ["shop", "http://{hots}", "http://shop/ready", 8080, None])
def test_urls_that_are_refused(url: object) -> None:
    with pytest.raises(ConfigError, match="announce_url"):
        check_announce(None, url)


@pytest.mark.parametrize("topic", ["", "kshare workers", 7])
def test_topics_that_are_refused(topic: object) -> None:
    with pytest.raises(ConfigError, match=r"announce .* isn't the name of a topic"):
        check_announce(topic, OWN_URL)


def test_the_endpoint_is_needed() -> None:
    require_endpoint(None, None)
    require_endpoint("kshare-workers", "0.0.0.0:0")
    with pytest.raises(ConfigError, match="set http"):
        require_endpoint("kshare-workers", None)


def test_options_are_checked_when_the_worker_is_created() -> None:
    with pytest.raises(ConfigError, match="isn't the name of a topic"):
        Worker("localhost:9092", announce="a b")
    with pytest.raises(ConfigError, match="announce_url"):
        Worker("localhost:9092", announce_url="gopher://host")


def test_value() -> None:
    identity = identify_process("shop")
    announcement = Announcement(
        identity=identity,
        url=announced_url(OWN_URL, ("127.0.0.1", 8080), identity.host),
        handlers=(AnnouncedHandler("ship", "g"),),
        interval_s=60.0,
    )
    value = json.loads(announcement_value(announcement))
    assert value == {
        "schema": ANNOUNCEMENT_SCHEMA,
        "id": identity.id,
        "host": identity.host,
        "pid": identity.pid,
        "client_id": "shop",
        "version": identity.version,
        "started_at": identity.started_at,
        "url": "http://127.0.0.1:8080/status",
        "interval_s": 60.0,
        "handlers": [{"handler": "ship", "group": "g"}],
    }
