"""Handlers that raise: counts and logs that, tells the user's functions, and asks the retry policy for a delay."""

from __future__ import annotations

import logging

from kshare.surroundings import new_random
from kshare.worker.functions.user_functions import exception_name, is_failure, message_of, require_ended
from kshare.worker.handlers.payloads import PayloadError
from kshare.worker.host import RunningHandler
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.retry import Exponential
from kshare.worker.run.admission import Admission
from kshare.worker.watch.log_context import log_fields

log = logging.getLogger("kshare.worker")


class HandlerFailures:
    """For one handler."""

    def __init__(self, handler: RunningHandler, admission: Admission) -> None:
        self._handler = handler
        self._route = handler.route
        self._admission = admission
        self._summary = handler.summary
        self._random = new_random()

    def note(self, delivery: Delivery, error: Exception, facts: Facts, *, is_told: bool) -> None:
        """Count and log the failure, and add what follows from it to the facts. `is_told`: `on_error` was called."""
        self._handler.counts.failed += 1
        cause = f"failed with {exception_name(error)}"
        self._handler.log_record(logging.WARNING, cause, delivery, message_of(error))
        fields = {"group": delivery.group, "handler": self._route.name, **log_fields(delivery)}
        log.debug("handler %s failed for %r", self._route.name, delivery, exc_info=error, extra=fields)
        if not is_told:
            self._tell(delivery, error)
        facts.chosen = delivery.decision
        facts.error_name = exception_name(error)
        facts.is_payload_error = isinstance(error, PayloadError)
        if not facts.is_payload_error:
            facts.is_attempt = self._admission.on_failure(delivery, error)
            if facts.chosen is None:
                facts.next_delay = self._next_delay(error, facts)

    def _tell(self, delivery: Delivery, error: Exception) -> None:
        delivery.is_over = False  # these functions may still decide: nothing else runs meanwhile
        for report in self._route.on_error:
            try:
                require_ended(report, report(delivery, error), "on_error")
            except BaseException as problem:
                if not is_failure(problem):
                    raise
                what = f"{exception_name(problem)}: {message_of(problem)}"
                self._summary.event(logging.ERROR, "on_error failed", what)
                log.debug("on_error failed", exc_info=True)
        delivery.is_over = True

    def _next_delay(self, error: Exception, facts: Facts) -> float | None:
        attempt, luck = facts.counted_attempt, self._random.random()
        try:
            return self._route.options.retry.next_delay(error, attempt, facts.age_s, luck)
        except BaseException as problem:
            if not is_failure(problem):
                raise
            cause = "records are retried after the default delay, because the delay function of their policy failed"
            self._summary.event(
                logging.ERROR,
                cause,
                f"{exception_name(problem)} for attempt {attempt}: {message_of(problem)}",
            )
            log.debug("the delay function failed", exc_info=True)
            return Exponential().after(attempt, luck)
