"""The worker: runs functions for the records of share groups, and settles what becomes of them."""

from kshare.worker.adaptive import Adaptive
from kshare.worker.app import Handlers
from kshare.worker.breaker import Breaker
from kshare.worker.delivery import Deliveries, Delivery
from kshare.worker.health import HandlerHealth, HandlerState, WorkerHealth, WorkerState
from kshare.worker.log_context import RecordLogFilter
from kshare.worker.observer import HandlerRun, RecordSettled, RunResult, WorkerObserver
from kshare.worker.options import HandlerOptions
from kshare.worker.payloads import PayloadError
from kshare.worker.retry import Exponential, Retry
from kshare.worker.retry_topics import RetryTopics
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.trial import PublishedRecord, SampleRecord, Trial
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
    "RecordSettled",
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
