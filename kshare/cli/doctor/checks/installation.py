"""Checks whether kshare's compiled modules are used. The only check that needs no cluster."""

from __future__ import annotations

from kshare.cli.doctor.checks.finding import Finding, warning
from kshare.installation import SLOW, advice, is_compiled, mend

_CHECK = "installation"


def installation() -> list[Finding]:
    """Nothing where it is: that is no news of the cluster."""
    return [] if is_compiled() else [warning(_CHECK, f"{SLOW}; {advice()}", mend())]
