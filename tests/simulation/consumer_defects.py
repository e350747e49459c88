"""Defects to plant in consumers, besides those of the storm: a judge that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshare.state.membership import Membership, MembershipState


def leaving_is_tried_once() -> None:
    """A member that couldn't leave its group counts as one that has left."""
    for name in ("on_response", "on_no_answer"):
        _wrap(name, getattr(Membership, name))


def _wrap(name: str, original: Callable[..., Any]) -> None:
    def then_leave(self: Membership, *arguments: Any) -> Any:
        result = original(self, *arguments)
        if self.state is MembershipState.LEAVING:
            self.state = MembershipState.LEFT
        return result

    setattr(Membership, name, then_leave)


DEFECTS: dict[str, tuple[Callable[[], None], str]] = {
    leaving_is_tried_once.__name__: (leaving_is_tried_once, "still a member"),
}
"""Each, and which of the judge's findings it causes."""
