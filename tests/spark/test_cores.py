"""How many tasks Spark can run at once, according to its options."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from kshare.spark.cores import cores_in, spark_cores
from kshare.spark.jvm import properties


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[4]"}, 4),
        ({"spark.master": "local[4,2]", "spark.task.cpus": "2"}, 2),
        ({"spark.master": "local[*]"}, os.cpu_count()),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "spark://host:7077"}, None),
        ({"spark.master": "spark://host:7077", "spark.cores.max": "12"}, 12),
        ({"spark.master": "yarn"}, None),
        ({"spark.master": "yarn", "spark.executor.instances": "5"}, 5),
        ({"spark.master": "k8s://h", "spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        (
            {
                "spark.master": "yarn",
                "spark.executor.instances": "5",
                "spark.dynamicAllocation.enabled": "true",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_cores_by_options(options: dict[str, str], cores: int | None) -> None:
    assert cores_in(options) == cores


def test_without_a_jvm_the_cores_are_unknown() -> None:
    assert spark_cores() is None


def test_the_options_of_a_session(spark: SparkSession, jvm_pid: int) -> None:
    found = properties(jvm_pid)
    assert found is not None
    assert cores_in(found) == spark.sparkContext.defaultParallelism
