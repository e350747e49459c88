"""The log of commands, on stderr: names that others chose can't forge lines of it."""

from __future__ import annotations

import logging

from kshare.log_text import escaped


class OneLineFormatter(logging.Formatter):
    """For programs: a name in a message can't begin a line of its own. Tracebacks still have their lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, as the base class has it
        record.message = escaped(record.message)
        return super().formatMessage(record)


def log_handler(form: str) -> logging.Handler:
    """Writes to stderr, for programs."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(form))
    return handler
