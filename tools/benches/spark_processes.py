"""The Spark session to measure, in a process that runs as long as the study.

Spark's Kafka source needs the PySpark that it was built for, which is installed separately, once. All contestants run
with it.
"""

from __future__ import annotations

import atexit
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.benches.child import Child
from tools.benches.study import progress
from tools.kafka.jars import SPARK_SOURCE, SPARK_SOURCE_RELEASE, install
from tools.older_spark import installed
from tools.spark import environment

_START_S = 300.0
_RUN_S = 900.0
ITS_JARS = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
"""The jars that PySpark doesn't contain already."""


class Spark:
    """A process with a Spark session, which executes runs one after the other."""

    def __init__(self, pyspark: Path, settings: Sequence[str] = ()) -> None:
        variables = environment()
        path = [str(pyspark), variables["PYTHONPATH"]]
        wanted = {name: variables[name] for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")}
        words = [f"{name}={value}" for name, value in {**wanted, "PYTHONPATH": ":".join(path)}.items()]
        module = "tools.benches.contenders.spark_runs"
        self._child = Child(["env", *words, sys.executable, "-m", module, *settings])
        atexit.register(self._child.end)
        self.release: str = json.loads(self._child.hear(_START_S))["spark"]

    def run(self, name: str, source: str, options: Mapping[str, object], **extra: object) -> dict[str, Any]:
        given = {key: str(value) for key, value in options.items()}
        request = {"run": name, "format": source, "options": given, **extra}
        response: dict[str, Any] = json.loads(self._child.ask(json.dumps(request), _RUN_S))
        return response


@functools.cache
def spark() -> Spark:
    progress("spark: starting")
    home = installed(SPARK_SOURCE_RELEASE)
    jars = [str(jar) for jar in sorted(install(SPARK_SOURCE).iterdir()) if jar.name.startswith(ITS_JARS)]
    return Spark(home, [f"spark.jars={','.join(jars)}"])
