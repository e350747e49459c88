"""Options that don't exist."""

from __future__ import annotations

import pytest

from kshare.options.unknown import no_option


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("linegr", {}, "there is no option 'linegr'; did you mean linger?"),
        ("LINGER", {}, "there is no option 'LINGER'; did you mean linger?"),
        ("maxwaitsm", {}, "there is no option 'maxwaitsm'; did you mean maxWaitMs?"),
        ("zzz", {}, "there is no option 'zzz'"),
        ("zzz", {"listed": ["a", "b"]}, "there is no option 'zzz'; the options are a, b"),
        ("linegr", {"prefix": "kafka."}, "there is no option 'kafka.linegr'; did you mean kafka.linger?"),
    ],
)
def test_the_option_that_may_be_meant(name: str, more: dict[str, object], message: str) -> None:
    assert no_option(name, ["linger", "maxWaitMs"], **more) == message  # type: ignore[arg-type]
