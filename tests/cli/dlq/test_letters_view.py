"""`kshare dlq show`: where a dead letter is that was moved."""

from __future__ import annotations

from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, letter, letters_of
from tests.cli.running import Kshare


def test_the_old_place_says_where_the_letter_is(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"y", ("orders", 0, 9))
    assert run("dlq", "drop", GRAVE, "--letter", "0:0", "--letter", "0:1").code == 0
    letter(broker, b"x", ("orders", 0, 9), moved_from="0:0")
    assert [one["moved_to"] for one in letters_of(run)] == ["0:2", None, None]
    _, first, second, third = run("dlq", "show", GRAVE).out.splitlines()
    assert ("moved to 0:2" in first, " yes" in second, "moved" in third) == (True, True, False)
    explained = run("dlq", "show", GRAVE, "--letter", "0:0", "--explain").out
    assert f"settled by group kshare-dlq-{GRAVE}: moved to 0:2\n" in explained
    (cut_off,) = letters_of(run, "--max", "1")
    assert cut_off["moved_to"] is None, "its copy wasn't read"
