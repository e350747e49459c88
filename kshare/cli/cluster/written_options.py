"""Errors about the connection name its options as the user has written them, and the file that they are in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kshare.client.kafka_names import KAFKA_NAMES, dotted
from kshare.errors import ConfigError

_JAVAS = {
    "ca_file": "ssl.truststore.location",
    "cert_file": "ssl.keystore.location",
    "key_file": "ssl.key.location",
    "key_password": "ssl.key.password",
    "sasl_mechanism": "sasl.mechanism",
    "check_hostname": "ssl.endpoint.identification.algorithm",
    "username": "sasl.username",
    "password": "sasl.password",
}
"""What to write for options of ours that aren't given."""
_NAME = re.compile(
    r"(?<![\w./])(?:(ca_file|cert_file|key_file|key_password|sasl_mechanism|check_hostname)(?:=False)?(?![\w./])"
    r"|(?:(?<=^)|(?<=needs ))(username|password)\b)"
)


class WrittenOptions:
    """The options of a command, with Kafka's names; those in `in_file` are from the file `path`."""

    def __init__(self, options: Mapping[str, Any], path: Path | None, in_file: Collection[str]) -> None:
        self._options = options
        self._path = path
        self._in_file = in_file

    def explained(self, text: str) -> str:
        """The text of an error, for a user who doesn't know our names."""
        names = _JAVAS | self._names()
        text = _NAME.sub(lambda found: names[found[1] or found[2]], text)
        text = re.sub(r'(sasl[.\w]+)="(\w+)"', r"\1=\2", text)
        protocol = "SASL_SSL" if "sasl_mechanism" in self._names() else "SSL"
        text = text.replace("add tls=True", f"add security.protocol={protocol}")
        return f"{self._path}: {text}" if self._path is not None and self._is_about_file(text) else text

    def _is_about_file(self, text: str) -> bool:
        """Whether it names something that is in the file, or that is missing there."""
        missing = {name for name in _JAVAS.values() if name not in self._options}
        return any(name in text for name in missing.union(self._in_file))

    def _names(self) -> dict[str, str]:
        """Our names of options, with those that the user has written."""
        found: dict[str, str] = {}
        for written, value in self._options.items():
            kafkas = dotted(written)
            if kafkas not in KAFKA_NAMES:
                continue
            try:
                ours = KAFKA_NAMES[kafkas](value, self._options)
            except ConfigError:
                continue  # it is said elsewhere
            for name in ours:
                found.setdefault(name, written)
        return found
