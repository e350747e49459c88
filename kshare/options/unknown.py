"""Options that don't exist: which one may be meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.wording import nearest_name


def no_option(name: str, known: Iterable[str], listed: Iterable[str] = (), *, prefix: str = "") -> str:
    """The message of an error. If no known name is similar, it lists others, if there are any to list.

    With a prefix, all names have it in the message.
    """
    spelled = {option.lower(): option for option in known}
    near = nearest_name(name.lower(), spelled)
    names = tuple(listed)
    hint = (
        f"; did you mean {prefix}{spelled[near]}?"
        if near
        else f"; the options are {', '.join(names)}"
        if names
        else ""
    )
    return f"there is no option {prefix + name!r}{hint}"
