"""A consumer and a worker that report to OpenTelemetry's interface: without a provider, nothing comes of it."""

import asyncio

from kshare.metrics.opentelemetry import OpenTelemetryObserver
from kshare.testing import Broker
from kshare.worker.opentelemetry import OpenTelemetryWorkerObserver

from .shared import run_observed, start_at_the_beginning, write_and_read

with Broker(topics={"orders": 1}) as broker:
    start_at_the_beginning(broker, "readers")
    asyncio.run(write_and_read(broker.bootstrap, OpenTelemetryObserver()))
run_observed(OpenTelemetryWorkerObserver())
