"""All scripts, and a function that runs one on a broker."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.conversation import (
    cold_scripts,
    delivery_scripts,
    group_scripts,
    offset_scripts,
    session_scripts,
    state_scripts,
)
from tests.integration.conversation.talk import Entry, Talk
from tools.kafka.listeners import User

Script = Callable[[Talk], None]

SCRIPTS: dict[str, Script] = {
    script.__name__: script
    for module in (
        state_scripts,
        group_scripts,
        offset_scripts,
        session_scripts,
        cold_scripts,
        delivery_scripts,
    )
    for script in module.SCRIPTS
}


def tell(script: Script, address: tuple[str, int], user: User | None = None) -> list[Entry]:
    """Run a script, logged in as this user. Returns the broker's responses."""
    with Talk(address, user) as talk:
        script(talk)
        return talk.log
