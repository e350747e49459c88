"""How many tasks Spark can run at once, as its options say.

Decides nothing for a cluster whose size isn't in the options: with dynamic allocation or a shared standalone cluster,
the number of executors is only known to the scheduler.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping

from kshare.spark.jvm import driver_jvm, properties

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


@functools.cache
def spark_cores() -> int | None:
    """How many tasks can run at once; None if that is unknown. Asks the JVM once per process."""
    jvm = driver_jvm()
    options = properties(jvm) if jvm is not None else None
    return None if options is None else cores_in(options)


def cores_in(options: Mapping[str, str]) -> int | None:
    """The same, according to these options of Spark."""
    master = options.get("spark.master", "")
    per_task = _number(options, "spark.task.cpus") or 1
    if (local := _LOCAL.fullmatch(master)) is not None:
        wanted = local.group(1)
        cores: int | None = (os.cpu_count() or 1) if wanted == "*" else int(wanted or 1)
    elif (cluster := _LOCAL_CLUSTER.fullmatch(master)) is not None:
        cores = int(cluster.group(1)) * int(cluster.group(2))
    elif options.get("spark.dynamicAllocation.enabled", "false") == "true":
        cores = None
    elif master.startswith("spark://"):
        cores = _number(options, "spark.cores.max")
    else:
        executors, each = (_number(options, f"spark.executor.{name}") for name in ("instances", "cores"))
        # On YARN and Kubernetes, an executor has one core unless the options say otherwise.
        cores = None if executors is None else executors * (each or 1)
    return None if cores is None else max(1, cores // per_task)


def _number(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name, "")
    return int(value) if value.isdecimal() and int(value) else None
