"""Text from users and records for log lines: one line, and nothing that terminals or encodings stumble on."""

from __future__ import annotations

import re

# Control characters, separators of lines, changes of the text's direction, and surrogates, which UTF-8 can't encode.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""Control characters and lone surrogates become escapes, as Python writes them: `\x1b`, `\n`, `\ud800`."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
