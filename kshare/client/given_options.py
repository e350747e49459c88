"""All options that a user gives a client, in our names. What is wrong with them is told at once, not one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kshare.errors import ConfigError

_OF_DICTIONARIES = ("conf", "config", "configuration", "options", "properties", "settings")
"""What other clients, and wrappers of them, call all options together."""


def require_named_topics(positional: Sequence[object], options: Mapping[str, Any]) -> None:
    """Raises ConfigError for topics without a name, which consumers of kafka-python and aiokafka take."""
    if any(isinstance(one, Mapping) for one in positional):
        raise _in_a_dictionary("ShareConsumer", "options")
    topics = positional if "bootstrap_servers" in options else positional[1:]
    if topics:
        named = topics[0] if len(topics) == 1 and not isinstance(topics[0], str) else list(topics)
        raise ConfigError(f"topics are passed by name, in a list: write topics={named!r}")


def given_options(
    whose: str,
    bootstrap_servers: object,
    options: Mapping[str, Any],
    parse: Callable[[str, Any], Mapping[str, Any]],
    allowed: Collection[str],
) -> dict[str, Any]:
    """`parse` translates one option into ours. Raises ConfigError, which says `whose` options they are."""
    if isinstance(bootstrap_servers, Mapping):
        raise _in_a_dictionary(whose, "options")
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    problems: list[str] = []
    if bootstrap_servers is not None:
        values["bootstrap_servers"] = bootstrap_servers
    for name, value in options.items():
        try:
            translated = parse(name, value)
        except ConfigError as error:
            if name in _OF_DICTIONARIES and isinstance(value, Mapping):
                raise _in_a_dictionary(whose, name) from None
            problems.append(str(error))
            continue
        for option, ours in translated.items():
            if option not in allowed:
                problems.append(f"{name} is an option of consumers, not of {whose}: leave it out")
            elif option in values:
                problems.append(f"{names.get(option, option)} and {name} both set {option}: give only one")
            else:
                values[option], names[option] = ours, name
    if len(problems) > 1:
        raise ConfigError(f"{len(problems)} options can't be used: {'; '.join(problems)}")
    if problems:
        raise ConfigError(problems[0])
    return values


def _in_a_dictionary(whose: str, name: str) -> ConfigError:
    """Says nothing of what is in it, such as a password."""
    return ConfigError(
        f"options are passed by name, not in a dictionary: write ** before it: {whose}(**{name}). Kafka's names are "
        "understood"
    )
