"""Reads pages as a browser does, whatever their status."""

from __future__ import annotations

import urllib.error
import urllib.request

_DEADLINE_S = 30.0


def page(url: str) -> tuple[int, str]:
    """Its status and its text."""
    try:
        with urllib.request.urlopen(url, timeout=_DEADLINE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
