"""`kshare encode`: the reverse of `kshare decode`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import frames
from tests.cli.running import Kshare, assert_refused, kshare


@pytest.mark.parametrize("data", [frames.fetch_request(), frames.fetch_response(), frames.state_key()])
def test_output_of_decode_encodes_to_the_same_bytes(run: Kshare, data: bytes) -> None:
    form = run("decode", "--json", data.hex()).out
    assert run("encode", form).out == data.hex() + "\n"


@pytest.mark.lengthy
def test_file_input_and_escaped_output(run: Kshare, tmp_path: Path) -> None:
    path = tmp_path / "form.json"
    path.write_text(run("decode", "--json", frames.fetch_request().hex()).out)
    done = kshare("encode", str(path), "--output", "escaped")
    assert run("decode", "--field", "groupId", done.out).out.split()[-1] == '"orders"'


def test_missing_body_fields_get_defaults(run: Kshare) -> None:
    done = run("encode", '{"message": "ShareUpdateKey", "version": 0, "body": {"groupId": "g"}}')
    assert (done.code, done.out) == (0, "000167" + "00" * 20 + "\n")


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("{", "this is not JSON"),
        ("{}", '"message", "version" and "body"'),
        ('{"message": "ShareFetchReqest", "version": 2}', "did you mean ShareFetchRequest?"),
        ('{"message": "ShareFetchRequest", "version": 9}', "has no version 9"),
        ('{"message": "ShareFetchRequest"}', '"version" must be a number, not null'),
        ('{"message": "ShareFetchRequest", "version": 2, "body": {"group": 1}}', "no such field"),
        ('{"message": "ShareFetchRequest", "version": 2, "body": {"maxWaitMs": "x"}}', "maxWaitMs"),
        ('{"message": "ShareFetchRequest", "version": 2, "header": 3}', "header"),
        ("nowhere.json", "'nowhere.json': no such file, and it isn't JSON"),
    ],
)
def test_errors_are_reported_on_one_line(run: Kshare, form: str, reason: str) -> None:
    done = run("encode", form)
    assert_refused(done, 1, reason)
    assert "bug" not in done.err


def test_bytes_are_not_taken_for_json(run: Kshare, tmp_path: Path) -> None:
    path = tmp_path / "frame"
    path.write_bytes(b"\xff\xfe")
    assert_refused(run("encode", str(path)), 1, "this is not JSON, but bytes")


def test_encoded_message_can_be_decoded(run: Kshare) -> None:
    form = {"message": "ShareFetchRequest", "version": 2, "header": {"correlationId": 1}, "body": {}}
    done = run("decode", run("encode", json.dumps(form)).out.strip())
    assert done.out.startswith("ShareFetchRequest v2")
