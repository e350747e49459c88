"""The queries that wait for a source in Python, in stack traces in the format of `jstack`."""

from __future__ import annotations

from kshare.spark.driver.waiting_queries import waiting_queries

WAITING = "\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.latestOffset(a)\n"
OTHER = "\tat java.lang.Thread.sleep(Native Method)\n"


def test_only_queries_that_wait_for_python_are_found() -> None:
    dump = "\n".join(
        [
            f'"main" #1 prio=5\n{WAITING}',
            f'"stream execution thread for [id = 5c1f-1, runId = 77]" #9 daemon\n{WAITING}\tat Last.frame(a)\n',
            f'"stream execution thread for [id = 5c1f-2, runId = 77]" #9 daemon\n{OTHER}',
            f'"stream execution thread for my [id = x] query [id = 5c1f-3, runId = 77]" #9 daemon\n{WAITING}',
            f'"stream execution thread for nothing" #9 daemon\n{WAITING}',
        ]
    )
    found = waiting_queries(dump)
    assert [query.id for query in found] == ["5c1f-1", "5c1f-3", ""]
    assert "Last.frame" in found[0].stack
    assert waiting_queries("") == []
