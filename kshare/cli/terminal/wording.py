"""Wording of counts and offset ranges."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """1 record, 12 records"""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def counted_large(count: int, noun: str, plural: str = "s") -> str:
    """12,345 records: for numbers that may be large."""
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def span(first: int, last: int) -> str:
    """17, or 17..20"""
    return str(first) if first == last else f"{first}..{last}"
