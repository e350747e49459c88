"""Where workers are looked for, and options that are refused."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.web.config import WebConfig, WorkerSources


@pytest.mark.parametrize(
    ("urls", "topic", "has_any"),
    [((), None, False), (("http://shop:8080",), None, True), ((), "kshare-workers", True)],
)
def test_whether_there_is_any_source(urls: tuple[str, ...], topic: str | None, has_any: bool) -> None:
    assert WorkerSources.parse(urls, topic, ()).has_any is has_any


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"worker_urls": ("shop:8080",)}, "isn't the URL of a worker"),
        ({"worker_urls": ("http://me:secret@shop",)}, "must not have a username"),
        ({"worker_topic": "work ers"}, "--worker-topic 'work ers' isn't the name of a topic"),
        ({"worker_topic": "w", "worker_hosts": ("10.0.0.1/8",)}, "neither a host name"),
        ({"worker_hosts": ("*.shop",)}, "name the topic, too"),
    ],
)
def test_invalid_sources_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        WebConfig({}, **options)  # type: ignore[arg-type]
