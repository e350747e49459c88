"""Failures of one share session: when to retry, what to log, and which failures end the consumer.

Raises errors that retrying won't fix: a missing permission, or a batch larger than the limit for responses. Decides
nothing about the session itself, nor about its leases.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kshare.engine.reporter import Reporter
from kshare.engine.settings import MemberSettings
from kshare.engine.unreadable import UnreadableResponses
from kshare.errors import ConfigError, FrameTooLarge, KshareError, NotAuthorized, RequestTimedOut
from kshare.net.backoff import Backoff
from kshare.net.permissions import Right, refusal
from kshare.net.settings import LARGEST_LIMIT
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.state.acks import RETRY_LATER
from kshare.state.lease import TopicIdPartition
from kshare.state.session import SessionResponse
from kshare.surroundings import new_random
from kshare.wording import counted

_PAUSE_S = 0.1
"""The first pause. It grows with each further failure, up to `backoff_max`."""
_USUAL_S = 5.0
"""How long leaders that move may refuse fetches. What lasts longer is logged."""


class SessionFailures:
    def __init__(
        self, node: int, settings: MemberSettings, name_of: Callable[[bytes], str | None], reporter: Reporter
    ) -> None:
        self.is_failing = False
        """The last response was missing or an error, or had partitions that couldn't be fetched."""
        self._node = node
        self._settings = settings
        self._name_of = name_of
        self._reporter = reporter
        self._backoff = Backoff(_PAUSE_S, max(_PAUSE_S, settings.net.backoff_max), new_random())
        self._unreadable = UnreadableResponses()
        self._failing_since: dict[TopicIdPartition, float] = {}
        self._too_large_size: int | None = None
        """The size of the last response that was too large, if none has brought records since."""

    @property
    def pause_until(self) -> float:
        return self._backoff.until

    def on_sent(self) -> None:
        self.is_failing = False

    def on_response(self, response: SessionResponse, now: float) -> None:
        """The session continues, though some partitions may have failed."""
        for (topic_id, _), code in response.failed.items():
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise self._refusal(code, Right("Read", "topic", self._name_of(topic_id) or topic_id.hex()))
        self._note_refused(response, now)
        if response.acquired:
            self._unreadable.on_useful()
            self._too_large_size = None
        is_failing = bool(response.failed) or any(
            code in RETRY_LATER for code in response.acknowledged.values()
        )
        if not is_failing or response.acquired:
            # Other partitions succeeded: they wait no longer than after a first failure.
            self._backoff.on_success()
        if is_failing:
            self._backoff.on_failure(now)
        self.is_failing = is_failing

    def _note_refused(self, response: SessionResponse, now: float) -> None:
        """One line, however many partitions the node refuses."""
        since = {where: self._failing_since.get(where, now) for where in response.failed}
        self._failing_since = since
        lasting = [where for where, began in since.items() if now - began > _USUAL_S]
        if lasting:
            (topic_id, number), others = lasting[0], len(lasting) - 1
            error = error_name(response.failed[lasting[0]])
            detail = f"{self._name_of(topic_id) or topic_id.hex()}[{number}] ({error})"
            detail += f" and {counted(others, 'other partition')}" if others else ""
            self._log(logging.WARNING, f"node {self._node} refuses fetches; retrying", detail)

    def on_error(self, response: SessionResponse, now: float) -> None:
        """The session as a whole failed, and has ended."""
        if response.error == ErrorCode.SHARE_SESSION_LIMIT_REACHED and not self._backoff.failures:
            cause = f"node {self._node} has reached its limit of share sessions: retrying until others end"
            detail = f"{error_name(response.error)}; its setting group.share.max.share.sessions allows more"
            self._log(logging.WARNING, cause, detail)
        self._note(now)

    def check_rights(self, response: SessionResponse) -> None:
        """Called after `on_error`, when the session has been abandoned."""
        if response.error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise self._refusal(response.error, Right("Read", "group", self._settings.group))

    def on_no_response(self, error: KshareError, now: float) -> None:
        self._note(now)
        if isinstance(error, RequestTimedOut):
            self._log(logging.WARNING, f"node {self._node} doesn't respond", error)

    def check_readable(self, error: KshareError, wanted: Iterable[TopicIdPartition], now: float) -> None:
        """Called after `on_no_response`, when the session has been abandoned."""
        if isinstance(error.__cause__, FrameTooLarge):
            # A large batch makes the same size each time. Anything else is damage, like a response that can't be read.
            if error.__cause__.size == self._too_large_size:
                raise self._too_large(error.__cause__, wanted) from error
            self._too_large_size = error.__cause__.size
        self._unreadable.note(error, f"node {self._node}", now)

    def _note(self, now: float) -> None:
        self.is_failing = True
        self._backoff.on_failure(now)

    def _too_large(self, error: FrameTooLarge, wanted: Iterable[TopicIdPartition]) -> ConfigError:
        """Fetching these records repeatedly would reach their delivery count limit, and they would be archived."""
        names = sorted(
            f"{self._name_of(topic_id) or topic_id.hex()}[{number}]" for topic_id, number in wanted
        )
        batch_of = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        enough = min(2 * error.size, LARGEST_LIMIT)
        return ConfigError(
            f"node {self._node} responds to a fetch with {error.size} bytes, and max_response_bytes is {error.limit}: "
            f"a record batch of {batch_of} is larger than that. Set max_response_bytes to {enough} or more"
        )

    def _refusal(self, code: int, right: Right) -> NotAuthorized:
        return refusal(code, "fetching", right, self._settings.net)

    def _log(self, level: int, cause: str, detail: object) -> None:
        self._reporter.log.event(level, cause, detail)
