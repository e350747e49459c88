"""Runs a query's runner without Spark: acquires a topic in micro-batches, and accepts each with the next one."""

from __future__ import annotations

import json
import time

from kshare.spark.driver.runner import Runner
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import Token
from tools.benches.contenders.program import Given, end_of_input, main, say


def acquire(given: Given) -> None:
    end_of_input()
    options = {
        "kafka.bootstrap.servers": given["bootstrap"],
        "group": given["group"],
        "subscribe": given["topic"],
        "settle": given["settle"],
    }
    runner = Runner(ReadOptions.parse(options, is_streaming=True))
    wanted = int(given["records"])
    seen, began, cpu = 0, 0.0, 0.0
    token = Token()
    while seen < wanted:
        latest = runner.latest(token, None)
        if not began and latest is not None:
            # The first micro-batch isn't counted, because it includes joining the group and importing modules.
            began, cpu = time.perf_counter(), time.process_time()
            wanted -= sum(map(len, latest.acquired))
        elif latest is not None:
            seen += sum(map(len, latest.acquired))
        if latest is not None:
            runner.commit(token)
            runner.read(token, latest)
            token = latest
    result = {"records": seen, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    say(json.dumps(result))
    runner.stop()


if __name__ == "__main__":
    main(acquire)
