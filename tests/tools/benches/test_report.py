"""The data file and the page generated from it. Only the figures of the measured member are replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.benches.report import DATA, PAGE, entry, page, write
from tools.benches.study import Contest, Figure, Spread, Study, StudyResult, evaluate

ROOT = Path(__file__).parents[3]


def studied(fast: float = 250_000.0, *, is_series: bool = False) -> StudyResult:
    study = Study(
        "consume",
        ["1,000 records of 100 bytes"],
        [Figure("records", "a second", more_is_better=True), Figure("CPU", "microseconds a record")],
        {"kshare": dict, "confluent-kafka": dict},
        [Contest("records", "kshare", "confluent-kafka")],
        is_series=is_series,
    )
    taken = {
        "kshare": [{"records": fast, "CPU": 0.123456789}],
        "confluent-kafka": [{"records": 100_000.0}],
    }
    return evaluate(study, taken)


def measured() -> StudyResult:
    study = Study("codecs", [], [Figure("time", "nanoseconds a message")], {}, [])
    return StudyResult(study, {"time": {"kshare": Spread(1.0, 2.0, 3.0)}}, {"encode": Spread(1.5, 1.6, 1.7)})


def data_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / DATA).read_text(encoding="utf-8"))
    return found


def test_page_is_generated_from_the_data() -> None:
    docs = ROOT / "docs"
    said = (docs / PAGE).read_text(encoding="utf-8")
    assert page(data_of(docs)) == said, "run `python -m tools.benches.report docs`"


def test_measured_member_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    write(tmp_path, "tools/bench consume", {"consume": studied(250_000.0)})
    write(tmp_path, "tools/bench codecs", {"codecs": measured()})
    before = data_of(tmp_path)
    write(tmp_path, "tools/bench consume --rounds 1", {"consume": studied(300_000.0)})
    after = data_of(tmp_path)
    assert after["codecs"] == before["codecs"]
    assert after["consume"]["figures"]["records"]["kshare"] == {
        "low": 300000,
        "middle": 300000,
        "high": 300000,
    }
    said = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "300,000" in said
    assert "250,000" not in said
    assert said.index("## Messages") < said.index("## Consuming")


def test_entry_has_its_command_and_every_figure() -> None:
    found = entry("tools/bench consume", studied())
    assert found["command"] == "tools/bench consume"
    assert found["machine"].startswith("Python 3.")
    assert found["remarks"] == ["1,000 records of 100 bytes"]
    assert found["units"] == {"records": "a second", "CPU": "microseconds a record"}
    assert found["figures"]["CPU"] == {"kshare": {"low": 0.12346, "middle": 0.12346, "high": 0.12346}}
    assert found["ratios"] == {"records: kshare / confluent-kafka": {"low": 2.5, "middle": 2.5, "high": 2.5}}


def test_figures_are_shown_as_chart_and_table() -> None:
    said = page({"consume": entry("tools/bench consume", studied())})
    assert "kshare           ████████████████████████████████████████     250,000\n" in said
    assert "confluent-kafka  ████████████████                             100,000\n" in said
    assert "| | records, a second | CPU, microseconds a record |\n" in said
    assert "| kshare | 250,000 | 0.123 |\n" in said
    assert "| confluent-kafka | 100,000 |  |\n" in said


def test_a_study_with_one_figure() -> None:
    said = page({"codecs": entry("tools/bench codecs", measured())})
    assert "| | time, nanoseconds a message |\n" in said
    assert "| kshare | 2 |\n" in said


def test_series_has_only_a_table() -> None:
    assert "█" not in page({"consume": entry("tools/bench consume", studied(is_series=True))})


def test_page_starts_with_a_summary_of_ratios() -> None:
    found = dict(entry("tools/bench consume", studied()))
    assert "## In short" not in page({"consume": found})
    found["ratios"] = {
        "records: kshare batches, tuned / confluent-kafka, tuned": {"low": 1.0, "middle": 2.0, "high": 3.0}
    }
    said = page({"consume": found})
    assert (
        "| records per second in batches, compared with confluent-kafka, both tuned | 2.00 | 1.00 to 3.00 |\n"
        in said
    )
