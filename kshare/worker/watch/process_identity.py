"""Who a worker process is, for those who watch several."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass

from kshare.installation import version
from kshare.surroundings import wall_time


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    id: str
    """Given at random when the worker starts, and the same until it ends."""
    host: str
    pid: int
    client_id: str
    version: str
    """That of kshare."""
    started_at: float
    """In seconds since 1970."""


def identify_process(client_id: str) -> ProcessIdentity:
    """Called once for each start of a worker."""
    return ProcessIdentity(
        id=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=os.getpid(),
        client_id=client_id,
        version=version(),
        started_at=round(wall_time(), 3),
    )
