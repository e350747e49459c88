"""The file map in the architecture document matches the docstrings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.filemap import BEGIN, END, PAGE, ROOT, FileMapError, file_map, first_line, main, merged


@pytest.mark.lengthy
def test_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert merged(page, file_map(ROOT)) == page, "run `python -m tools.filemap`"


@pytest.mark.lengthy
def test_every_package_is_listed_and_no_generated_module() -> None:
    found = file_map(ROOT)
    packages = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("kshare/**/*.py")}
    generated = {"kshare/protocol/messages", "kshare/dissect/fields"}
    assert {line[5:-2] for line in found.splitlines() if line.startswith("### ")} == packages - generated
    assert "`error_codes.py`" not in found


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ("Sockets. Nothing else.", "Sockets. Nothing else"),
        ("Sockets.\n\nThey are many.", "Sockets"),
        ("Sockets, which are\nmany. Each is one.", "Sockets, which are many. Each is one"),
        ("Sockets.\nThey are many.", "Sockets"),
        ("Three of them:\n\n    one", "Three of them"),
    ],
)
def test_first_sentences_of_docstrings(tmp_path: Path, document: str, wanted: str) -> None:
    (tmp_path / "it.py").write_text(f'"""{document}"""\n', encoding="utf-8")
    assert first_line(tmp_path / "it.py") == wanted


def test_module_without_docstring_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kshare").mkdir()
    (tmp_path / "kshare" / "silent.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(FileMapError, match=r"silent\.py has no docstring"):
        file_map(tmp_path)


def test_bars_are_escaped_and_packages_sorted(tmp_path: Path) -> None:
    for name in ("kshare/state/one.py", "kshare/net/two.py", "kshare/net/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('"""a | b"""' if "__" not in name else "", encoding="utf-8")
    rows = [line for line in file_map(tmp_path).splitlines() if "`" in line]
    assert rows == [
        "### `kshare/net/`",
        r"| `two.py` | a \| b |",
        "### `kshare/state/`",
        r"| `one.py` | a \| b |",
    ]


def test_only_text_between_the_markers_changes() -> None:
    page = f"# A page\n{BEGIN}old\n{END}rest\n"
    assert merged(page, "new\n") == f"# A page\n{BEGIN}\nnew\n\n{END}rest\n"
    with pytest.raises(FileMapError, match="lacks"):
        merged("# A page\n", "new\n")


@pytest.mark.lengthy
def test_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}{END}", encoding="utf-8")
    monkeypatch.setattr("tools.filemap.PAGE", page)
    assert main([]) == 0
    assert "### `kshare/state/`" in page.read_text(encoding="utf-8")
    page.write_text("", encoding="utf-8")
    assert main([]) == 1
