"""The browser, and a console of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kshare import sync
from tests.helpers.consoles import RunningConsole, running_console
from tests.web.conftest import chromium, open_page, page, problems, pytest_collection_modifyitems
from tools.kafka.cluster import Cluster

__all__ = ["chromium", "open_page", "page", "problems", "pytest_collection_modifyitems"]

same_with_kafka = pytest.mark.long_on("4.4.0")
"""For tests of what is the same with the embedded broker and with Kafka: looks, the keyboard, refused forms.

Each test runs with one of the two, and in long runs with both: to open pages takes seconds.
"""


@pytest.fixture
def console(kafka: Cluster) -> Iterator[RunningConsole]:
    """Changes are allowed."""
    with running_console(kafka.bootstrap, allow_changes=True) as running:
        yield running


@contextmanager
def pinned(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A group whose member `courier` holds offset 0, and has settled all others that fit into the in-flight window."""
    with sync.ShareConsumer(
        bootstrap,
        group=group,
        topics=[topic],
        acknowledgement="explicit",
        acquire="records",
        max_records=50,
        client_id="courier",
        max_lease_seconds=600,
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                if record.offset:
                    record.accept()
                seen += 1
            consumer.commit()
            if seen >= WINDOW:
                break
        yield


WINDOW = 100
"""Kafka's smallest limit of an in-flight window."""
