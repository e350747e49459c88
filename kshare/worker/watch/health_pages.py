"""The pages of the HTTP endpoint: /live, /ready, /status and /metrics.

page     | 200              | 503
---------+------------------+------------------------------------------------------------------
/live    | while it responds | never: a worker that is stopped doesn't respond
/ready   | while it runs    | while it starts or drains, and when no broker responds
/status  | always           | never: it says what the process is doing, for consoles
/metrics | always           | never; 404 if no observer has metrics
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from kshare.http.messages import HttpRequest, HttpResponse
from kshare.worker.watch.health import WorkerHealth, health_page
from kshare.worker.watch.observer import WorkerObserver
from kshare.worker.watch.status import ProcessStatus, status_page

_JSON = "application/json"
_NO_METRICS = (
    "there are no metrics: write worker.observe(PrometheusWorkerObserver()), see kshare.worker.prometheus"
)


class HealthPages:
    def __init__(
        self,
        health: Callable[[], WorkerHealth],
        status: Callable[[], ProcessStatus],
        observers: Sequence[WorkerObserver],
    ) -> None:
        self._health = health
        self._status = status
        self._observers = observers

    def __call__(self, request: HttpRequest) -> HttpResponse:
        match request.path:
            case "/live":
                health = self._health()
                return _page(health, is_fine=health.is_live)
            case "/ready":
                health = self._health()
                return _page(health, is_fine=health.is_ready)
            case "/status":
                return HttpResponse(200, _JSON, json.dumps(status_page(self._status())).encode())
            case "/metrics":
                return self._metrics()
        return HttpResponse.text(404, "there are /live, /ready, /status and /metrics")

    def _metrics(self) -> HttpResponse:
        found = [page for page in (observer.exposition() for observer in self._observers) if page is not None]
        if not found:
            return HttpResponse.text(404, _NO_METRICS)
        return HttpResponse(200, found[0][0], b"".join(body for _, body in found))


def _page(health: WorkerHealth, *, is_fine: bool) -> HttpResponse:
    body = json.dumps(health_page(health), indent=2) + "\n"
    return HttpResponse(200 if is_fine else 503, _JSON, body.encode())
