"""The committed files are exactly what the generator produces from schemas/."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.kgen import generate

ROOT = Path(__file__).parents[3]


@pytest.mark.lengthy
def test_generated_files_are_up_to_date() -> None:
    assert generate.changes(ROOT) == {}


@pytest.fixture
def copy_of_tree(tmp_path: Path) -> Path:
    for part in ("schemas", "kshare/protocol", "kshare/dissect"):
        shutil.copytree(ROOT / part, tmp_path / part)
    return tmp_path


@pytest.mark.lengthy
def test_changed_file_is_found(copy_of_tree: Path) -> None:
    module = copy_of_tree / "kshare/protocol/messages/share_fetch_request.py"
    module.write_bytes(module.read_bytes().replace(b"\n", b"\r\n", 1))
    assert list(generate.changes(copy_of_tree)) == [module]


@pytest.mark.lengthy
def test_obsolete_files_are_found_and_removed(copy_of_tree: Path) -> None:
    orphan = copy_of_tree / "kshare/protocol/messages/gone_request.py"
    orphan.write_text(f"{generate.MARK} from schemas/GoneRequest.json.\n")
    changes = generate.changes(copy_of_tree)
    assert changes == {orphan: None}
    generate.apply(orphan, None)
    assert generate.changes(copy_of_tree) == {}


@pytest.mark.lengthy
def test_missing_file_is_written_again(copy_of_tree: Path) -> None:
    module = copy_of_tree / "kshare/protocol/error_codes.py"
    before = module.read_bytes()
    module.unlink()
    for path, text in generate.changes(copy_of_tree).items():
        generate.apply(path, text)
    assert module.read_bytes() == before
