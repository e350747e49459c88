"""One Spark session for all tests that need it, because its JVM takes longer to start than most tests to run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kshare.testing import Broker
from tools.kafka.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT = "spark.connect.grpc.binding.port"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2], and a Spark Connect server in the same JVM. Warnings of pyspark itself are ignored."""
    from tools.spark import session

    connect = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        _PORT: str(free_ports(1)[0]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark = session(settings=connect)
        yield spark
        spark.stop()


@pytest.fixture
def jvm_pid(spark: SparkSession) -> int:
    """The process id of the session's JVM."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pid: int = jvm.java.lang.ProcessHandle.current().pid()
    return pid


@pytest.fixture(scope="session")
def connect_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """A client of that server, which has no other access to the JVM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql.connect.session import SparkSession as Client

        client = Client.builder.remote(f"sc://127.0.0.1:{spark.conf.get(_PORT)}").create()
        yield client  # type: ignore[misc]  # another class with the same methods
        client.client.close()


@pytest.fixture(params=["classic", "connect"])
def any_spark(request: pytest.FixtureRequest) -> SparkSession:
    """Both kinds of sessions."""
    found: SparkSession = request.getfixturevalue("spark" if request.param == "classic" else "connect_spark")
    return found


@pytest.fixture(scope="session")
def orders_broker() -> Iterator[Broker]:
    """A broker for all tests: use fresh topics and groups."""
    with Broker() as broker:
        yield broker
