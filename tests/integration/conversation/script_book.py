"""All scripts, and a function that runs one on a broker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kshare.broker.profiles import Release
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


EMULATED: dict[str, Release] = {"4.1.2": "4.1", "4.3.1": "4.3", "4.4.0": "4.4"}
"""A tested release of Kafka → the release that the embedded broker emulates beside it."""
TRIES = 3
"""A busy real broker may need two steps for what it usually does in one, such as learning of a topic: then a script is
repeated. A real difference fails every time."""


def tell_both(
    script: Script, real: tuple[str, int], embedded: tuple[str, int]
) -> tuple[list[Entry], list[Entry]]:
    """Run a script on both brokers, several times unless they respond to alike. Returns their responses."""
    for tried in range(1, TRIES + 1):
        try:
            with ThreadPoolExecutor(2) as pool:
                expected, found = pool.map(lambda address: tell(script, address), (real, embedded))
        except AssertionError:
            if tried == TRIES:
                raise
        else:
            if found == expected or tried == TRIES:
                break
    return expected, found


def tell(script: Script, address: tuple[str, int], user: User | None = None) -> list[Entry]:
    """Run a script, logged in as this user. Returns the broker's responses."""
    with Talk(address, user) as talk:
        script(talk)
        return talk.log
