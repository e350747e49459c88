"""Styles that mean the same in all views."""

from __future__ import annotations

PROBLEM = "bold red"
FAINT = "bright_black"
NAME = "bold"
NOTE = "italic green"
