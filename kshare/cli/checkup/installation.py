"""Is this kshare as quick as it can be? The one check that asks no cluster."""

from __future__ import annotations

from kshare.cli.checkup.finding import Finding, ok, warning
from kshare.installation import MEND, SLOW, advice, is_compiled

_CHECK = "installation"


def installation() -> Finding:
    if is_compiled():
        return ok(_CHECK, "kshare's modules are compiled")
    return warning(_CHECK, f"{SLOW}; {advice()}", MEND)
