"""Simulations that broke a promise once, made smaller with `tools/simulate --shrink`. `--found` runs them all again."""

from __future__ import annotations

from tests.simulation.world import Plan

FOUND: dict[str, tuple[str, Plan]] = {}
"""What was wrong → the world, and the plan."""
