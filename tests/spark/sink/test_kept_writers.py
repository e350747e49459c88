"""Producers are kept between tasks, and closed after an error, and before their connections are."""

from __future__ import annotations

import pytest

from kshare.spark.executor.connections import close_connections
from kshare.spark.sink.kept_writers import kept_writer
from kshare.testing import Broker
from tests.spark.sink.tasks import connected, options


def test_a_producer_is_kept_for_the_next_task(broker: Broker) -> None:
    given = options(broker)
    shared = connected(given)
    with kept_writer(shared, given.writing) as first, kept_writer(shared, given.writing) as other:
        assert other is not first
    with kept_writer(connected(given), given.writing) as again:
        assert again is first
    zstd = options(broker, kafka_compression_type="zstd")
    with kept_writer(connected(zstd), zstd.writing) as different:
        assert different is not first
    close_connections()
    with kept_writer(connected(given), given.writing) as anew:
        assert anew is not first


def test_a_producer_is_closed_after_an_error(broker: Broker) -> None:
    given = options(broker)
    with pytest.raises(ZeroDivisionError), kept_writer(connected(given), given.writing) as first:
        raise ZeroDivisionError
    with kept_writer(connected(given), given.writing) as again:
        assert again is not first
