"""Checks whether kshare's compiled modules are used. The only check that needs no cluster."""

from __future__ import annotations

from kshare.doctor.check_result import CheckResult, warning
from kshare.installation import advice, mend, why_slow

_CHECK = "installation"


def installation() -> list[CheckResult]:
    """No result if they are used, because that doesn't concern the cluster."""
    slow = why_slow()
    return [warning(_CHECK, f"{slow}; {advice()}", mend())] if slow else []
