"""How many connections the limit of open files leaves room for."""

from __future__ import annotations

from contextlib import suppress

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

BACKLOG = 64
"""Connections that are accepted at a time, before one of them can be closed again."""
_OTHERS = 128
"""Files, and connections to the cluster and to workers."""
_ENOUGH = 4096
_LEAST = 16


def raise_limit() -> None:
    """To what the console ever needs, as far as it is allowed to."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(wanted: int) -> int:
    """As many as are wanted, or as there is room for: those that are being accepted and closed need it, too."""
    if resource is None:
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(_LEAST, min(wanted, soft - _OTHERS - 3 * BACKLOG))
