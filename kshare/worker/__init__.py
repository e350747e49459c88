"""The worker: runs functions for the records of share groups, and settles what becomes of them."""

from kshare.worker.app import Handlers
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.handlers.payloads import PayloadError
from kshare.worker.records.delivery import Deliveries, Delivery
from kshare.worker.rules.adaptive import Adaptive
from kshare.worker.rules.breaker import Breaker
from kshare.worker.rules.decision import Decision, RecordOutcome, RunResult
from kshare.worker.rules.retry import Exponential, Retry
from kshare.worker.rules.retry_topics import RetryTopics
from kshare.worker.trial import PublishedRecord, SampleRecord, Trial
from kshare.worker.watch.health import HandlerHealth, HandlerState, WorkerHealth, WorkerState
from kshare.worker.watch.log_context import RecordLogFilter
from kshare.worker.watch.observer import HandlerRun, RecordProcessed, WorkerObserver
from kshare.worker.worker import Worker

__all__ = [
    "Adaptive",
    "Breaker",
    "Decision",
    "Deliveries",
    "Delivery",
    "Exponential",
    "HandlerHealth",
    "HandlerOptions",
    "HandlerRun",
    "HandlerState",
    "Handlers",
    "PayloadError",
    "PublishedRecord",
    "RecordLogFilter",
    "RecordOutcome",
    "RecordProcessed",
    "Retry",
    "RetryTopics",
    "RunResult",
    "SampleRecord",
    "Trial",
    "Worker",
    "WorkerHealth",
    "WorkerObserver",
    "WorkerState",
]
