"""One Spark for all tests that need it: its JVM takes longer to start than most of them to run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kshare.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2]. What pyspark itself warns of is none of our affair."""
    from tools.spark import session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark = session()
        yield spark
        spark.stop()


@pytest.fixture(scope="session")
def orders_broker() -> Iterator[Broker]:
    """Use fresh topics and groups."""
    with Broker() as broker:
        yield broker
