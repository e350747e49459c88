"""Reads what a status page says, as the worker has written it in `kshare.worker.watch.status`. Pure."""

from __future__ import annotations

from dataclasses import fields

from kshare.fleet.json_table import JsonTable
from kshare.worker.rules.breaker import BreakerState
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.health import HandlerHealth, HandlerState, WorkerState
from kshare.worker.watch.process_identity import ProcessIdentity
from kshare.worker.watch.status import MOST_RUNS, SCHEMA, HandlerStatus, ProcessStatus, RunState, RunStatus

_MOST_HANDLERS = 1_000
_MOST_TOPICS = 10_000
"""Of all handlers: a short text takes many times its bytes."""


def parse_status(body: bytes) -> ProcessStatus:
    """Raises NotExpected, with the reason."""
    page = JsonTable.parse(body)
    page.require_schema(SCHEMA)
    handlers: list[HandlerStatus] = []
    topics_left = _MOST_TOPICS
    for table in page.tables("handlers", _MOST_HANDLERS):
        handlers.append(_handler(table, topics_left))
        topics_left -= len(handlers[-1].health.topics)
    return ProcessStatus(
        identity=parse_identity(page),
        state=page.choice("state", WorkerState),
        reason=page.text("reason"),
        handlers=tuple(handlers),
    )


def parse_identity(table: JsonTable) -> ProcessIdentity:
    """Status pages and announcements have it in common."""
    return ProcessIdentity(
        id=table.text("id"),
        host=table.text("host"),
        pid=table.whole("pid"),
        client_id=table.text("client_id"),
        version=table.text("version"),
        started_at=table.number("started_at"),
    )


def _handler(table: JsonTable, most_topics: int) -> HandlerStatus:
    counts = table.table("counts")
    return HandlerStatus(
        health=HandlerHealth(
            handler=table.text("handler"),
            group=table.text("group"),
            topics=table.texts("topics", most_topics),
            state=table.choice("state", HandlerState),
            breaker=table.choice("breaker", BreakerState),
            running=table.whole("running"),
            ready=table.whole("ready"),
            held=table.whole("held"),
            counts=Counts(**{field.name: counts.whole(field.name) for field in fields(Counts)}),
            last_progress=table.number("last_progress"),
            unheard_s=table.number("unheard_s"),
        ),
        concurrency=table.whole("concurrency"),
        attempts=table.whole("attempts"),
        time_limit=table.number("time_limit"),
        lock_s=table.number("lock_s"),
        runs=tuple(_run(run) for run in table.tables("runs", MOST_RUNS)),
        run_count=table.whole("run_count"),
    )


def _run(table: JsonTable) -> RunStatus:
    return RunStatus(
        topic=table.text("topic"),
        partition=table.whole("partition"),
        offset=table.whole("offset"),
        records=table.whole("records", 1),
        delivery_count=table.whole("delivery_count"),
        attempt=table.whole("attempt"),
        state=table.choice("state", RunState),
        seconds=table.number("seconds"),
    )
