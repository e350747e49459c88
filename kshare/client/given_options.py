"""All options that a user gives a client, in our names. What is wrong with them is told at once, not one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kshare.errors import ConfigError


def require_named_topics(positional: Sequence[object], options: Mapping[str, Any]) -> None:
    """Raises ConfigError for topics without a name, which consumers of kafka-python and aiokafka take."""
    topics = positional if "bootstrap_servers" in options else positional[1:]
    if topics:
        raise ConfigError(f"topics are passed by name, in a list: write topics={list(topics)!r}")


def given_options(
    whose: str,
    bootstrap_servers: object,
    options: Mapping[str, Any],
    parse: Callable[[str, Any], Mapping[str, Any]],
    allowed: Collection[str],
) -> dict[str, Any]:
    """`parse` translates one option into ours. Raises ConfigError, which says `whose` options they are."""
    if isinstance(bootstrap_servers, Mapping):
        raise ConfigError(
            f"options are passed by name, not in a dictionary: write {whose}(**options); Kafka's names are understood"
        )
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    problems: list[str] = []
    if bootstrap_servers is not None:
        values["bootstrap_servers"] = bootstrap_servers
    for name, value in options.items():
        try:
            translated = parse(name, value)
        except ConfigError as error:
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
