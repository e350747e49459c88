"""The pages of the HTTP endpoint: /live, /ready and /metrics.

page     | 200              | 503
---------+------------------+------------------------------------------------------------------
/live    | while it answers | never: a worker that is stopped doesn't answer
/ready   | while it runs    | while it starts or drains, and when no broker responds
/metrics | always           | never; 404 if no observer has metrics
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from kshare.worker.health import WorkerHealth, health_page
from kshare.worker.http_messages import HttpRequest, HttpResponse
from kshare.worker.observer import WorkerObserver

_NO_METRICS = (
    "there are no metrics: write worker.observe(PrometheusWorkerObserver()), see kshare.worker.prometheus"
)


class HealthPages:
    def __init__(self, health: Callable[[], WorkerHealth], observers: Sequence[WorkerObserver]) -> None:
        self._health = health
        self._observers = observers

    def __call__(self, request: HttpRequest) -> HttpResponse:
        match request.path:
            case "/live":
                health = self._health()
                return _page(health, is_fine=health.is_live)
            case "/ready":
                health = self._health()
                return _page(health, is_fine=health.is_ready)
            case "/metrics":
                return self._metrics()
        return HttpResponse.text(404, "there are /live, /ready and /metrics")

    def _metrics(self) -> HttpResponse:
        found = [one for one in (observer.exposition() for observer in self._observers) if one is not None]
        if not found:
            return HttpResponse.text(404, _NO_METRICS)
        return HttpResponse(200, found[0][0], b"".join(body for _, body in found))


def _page(health: WorkerHealth, *, is_fine: bool) -> HttpResponse:
    body = json.dumps(health_page(health), indent=2) + "\n"
    return HttpResponse(200 if is_fine else 503, "application/json", body.encode())
