"""Matches regular expressions in time that is linear in the text, unlike `re`, which may backtrack for ever.

    (a|bc)+   ──▶ split ──▶ a ─────────────▶ split ──▶ end
                 ▲  └─────▶ b ──▶ c ──────────▲ │
                 └──────────────────────────────┘

This is Thompson's simulation: all states that the expression may be in are followed at once, character by character. A
leaf is a pattern of `re` for one character or for a position. Doesn't read expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MOST_STATES = 2000
_DEEPEST = 100


@dataclass(slots=True)
class Alternatives:
    """A group: sequences of nodes of which one must match."""

    flags: re.RegexFlag
    """For the leaves that come next."""
    branches: list[list[Node]] = field(default_factory=lambda: [[]])


@dataclass(slots=True)
class Repeat:
    node: Node
    least: int
    most: int | None
    """None means any number."""


Node = re.Pattern[str] | Alternatives | Repeat


@dataclass(slots=True, eq=False)
class _State:
    leaf: re.Pattern[str] | None
    """What must match here; None means that it is passed without."""
    following: list[_State]


class LinearRegex:
    """A regular expression. Raises ValueError if it is too large."""

    def __init__(self, root: Node) -> None:
        self._steps = 0
        self._end = _State(None, [])
        self._start = self._build(root, self._end, 0)

    def fullmatch(self, text: str) -> bool:
        states, reached, position = [self._start], set[_State](), 0
        for position in range(len(text) + 1):
            after: list[_State] = []
            reached = set()
            while states:
                state = states.pop()
                if state in reached:
                    continue
                reached.add(state)
                if state.leaf is None:
                    states.extend(state.following)
                elif found := state.leaf.match(text, position):
                    (after if found.end() > position else states).extend(state.following)
            if not after:
                break
            states = after
        return position == len(text) and self._end in reached

    def _build(self, node: Node, following: _State, depth: int) -> _State:
        """The state in which the node begins."""
        self._steps += 1
        if self._steps > _MOST_STATES or depth > _DEEPEST:
            raise ValueError("too large for the embedded broker")
        if isinstance(node, re.Pattern):
            return _State(node, [following])
        if isinstance(node, Alternatives):
            starts = []
            for branch in node.branches:
                start = following
                for each in reversed(branch):
                    start = self._build(each, start, depth + 1)
                starts.append(start)
            return _State(None, starts)
        start = following
        if node.most is None:
            start = _State(None, [following])
            start.following.insert(0, self._build(node.node, start, depth + 1))
        for _ in range((node.most or node.least) - node.least):
            start = _State(None, [self._build(node.node, start, depth + 1), following])
        for _ in range(node.least):
            start = self._build(node.node, start, depth + 1)
        return start
