"""`kshare decode`: the output for valid, broken and secret bytes, in each view."""

from __future__ import annotations

import base64
import json
import random

import pytest

from tests.cli import frames
from tests.cli.running import Kshare


@pytest.mark.lengthy
def test_request_is_recognized_by_its_header(run: Kshare) -> None:
    done = run("decode", frames.fetch_request().hex())
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"ShareFetchRequest v2  {len(frames.fetch_request())} bytes"
    assert "4-5          requestApiKey 78  ShareFetch" in lines
    assert '12-15        clientId "me"' in lines


def test_response_is_guessed_and_decoded_down_to_its_records(run: Kshare) -> None:
    done = run("decode", frames.fetch_response().hex())
    assert done.code == 0
    assert done.out.startswith("ShareFetchResponse v2")
    assert 'value "order 1"' in done.out
    assert "offset 101" in done.out
    assert "deliveryCount 1" in done.out


def test_hex_view_shows_every_byte_at_its_position(run: Kshare) -> None:
    frame = frames.fetch_response()
    done = run("decode", "--hex", frame.hex())
    rows = [line for line in done.out.splitlines()[1:] if line[:8].strip(" ") and line[8:10] == "  "]
    shown = bytearray()
    for row in rows:
        if row[:8].isalnum():
            assert int(row[:8], 16) == len(shown)
            shown += bytes.fromhex(row[10:33])
    assert bytes(shown) == frame


def test_json_is_the_input_format_of_encode(run: Kshare) -> None:
    form = json.loads(run("decode", "--json", frames.fetch_request().hex()).out)
    assert (form["message"], form["version"], form["problems"]) == ("ShareFetchRequest", 2, [])
    assert form["header"]["correlationId"] == 7
    assert form["body"]["topics"][0]["partitions"][1]["partitionIndex"] == 1


@pytest.mark.lengthy
def test_field_option_selects_one_field(run: Kshare) -> None:
    frame = frames.fetch_request().hex()
    done = run("decode", "--field", "topics[0].partitions[1]", frame)
    assert done.code == 0
    assert "partitionIndex 1" in done.out
    assert "groupId" not in done.out
    form = json.loads(run("decode", "--json", "--field", "topics[0].partitions[1].partitionIndex", frame).out)
    assert (form["type"], form["length"], form["value"]) == ("int32", 4, 1)


def test_unknown_field_is_an_error(run: Kshare) -> None:
    done = run("decode", "--field", "topics[7]", frames.fetch_request().hex())
    assert (done.code, done.out, done.err) == (1, "", "kshare: there is no field topics[7]\n")


def test_broken_frame_is_shown_up_to_the_error(run: Kshare) -> None:
    frame = frames.fetch_request()[:80]
    done = run("decode", frame.hex())
    assert done.code == 1
    assert 'groupId "orders"' in done.out
    assert done.err.startswith("kshare: topics[0].topicId at byte 74: needs 16 bytes, 6 left")
    assert done.err.count("\n") == 1


@pytest.mark.lengthy
def test_truncated_frame_never_causes_a_traceback(run: Kshare) -> None:
    frame = frames.fetch_response()
    for length in range(1, len(frame)):
        for view in ("--json", "--hex"):
            done = run("decode", view, "--api", "ShareFetch", "--version", "2", frame[:length].hex())
            assert (done.code, done.err.count("\n")) == (1, 1), done
            assert "bug" not in done.err, length


def test_wrong_checksum_is_reported_and_decoding_continues(run: Kshare) -> None:
    batch = bytearray(frames.batch())
    batch[-1] ^= 1
    done = run("decode", batch.hex())
    assert done.code == 1
    assert 'value "order 1"' in done.out
    assert "records[0].crc at byte 17: invalid" in done.err


def test_passwords_are_masked_in_every_view(run: Kshare) -> None:
    body = frames.login()[17:]
    for source in (["--api", "36"], ["--as", "SaslAuthenticateRequest"]):
        data = frames.login() if source[0] == "--api" else body
        for view in ([], ["--hex"], ["--json"], ["--field", "authBytes"], ["--field", "authBytes", "--json"]):
            for cut in (0, 3):  # the second one is truncated
                done = run("decode", *source, *view, data[: len(data) - cut].hex())
                shown = done.out + done.err
                for secret in (frames.PASSWORD.decode(), frames.PASSWORD[3:8].hex(" "), "user"):
                    assert secret not in shown
                assert base64.b64encode(frames.PASSWORD[:9]).decode() not in shown


def test_several_frames_are_shown_in_order(run: Kshare) -> None:
    first, second = frames.fetch_request(), frames.login()
    done = run("decode", (first + second).hex())
    assert done.code == 0
    assert f"SaslAuthenticateRequest v2  {len(second)} bytes from {len(first)}" in done.out
    assert f"{len(first)}-{len(first) + 3}" in done.out


def test_body_without_header_is_decoded_by_its_name(run: Kshare) -> None:
    frame = frames.fetch_request()
    done = run("decode", "--as", "ShareFetchRequest", "--version", "2", frame[17:].hex())
    assert (done.code, done.err) == (0, "")
    assert 'groupId "orders"' in done.out


def test_surplus_bytes_after_a_request_are_reported(run: Kshare) -> None:
    """librdkafka 2.16 sends such a request for all topics. Brokers ignore the surplus bytes."""
    body = bytes.fromhex("0003000d00000005000772646b61666b610000000000010000")
    done = run("decode", (len(body).to_bytes(4, "big") + body).hex())
    assert done.out.startswith("MetadataRequest v13")
    assert "22         topics null" in done.out
    assert "26-28      unread  3 bytes after the end" in done.out
    assert (done.code, done.err) == (1, "kshare: unread at byte 26: 3 bytes after the end\n")


@pytest.mark.lengthy
def test_random_bytes_are_refused(run: Kshare) -> None:
    noise = random.Random(7).randbytes(300)
    done = run("decode", noise.hex())
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("kshare: this doesn't look like Kafka data; best guess: ")


def test_a_file_that_does_not_exist_may_look_like_base64(run: Kshare) -> None:
    done = run("decode", "nofile")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("kshare: 'nofile': no such file; as base64, this doesn't look like Kafka data")
    assert run("decode", "--guesses", "nofile").code == 0


@pytest.mark.parametrize("nothing", ["", " "])
def test_empty_text_is_no_folder(run: Kshare, nothing: str) -> None:
    done = run("decode", nothing)
    assert (done.code, done.err) == (
        1,
        "kshare: no input: give bytes as text or a file name, or pipe bytes in\n",
    )


@pytest.mark.lengthy
def test_guesses_are_listed_best_first(run: Kshare) -> None:
    done = run("decode", "--guesses", frames.fetch_response().hex())
    assert done.out.split()[1:3] == ["ShareFetchResponse", "v2"]
    rows = json.loads(run("decode", "--guesses", "--json", frames.fetch_response().hex()).out)
    assert rows[0]["message"] == "ShareFetchResponse"
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)


def test_impossible_versions_and_kinds_are_refused(run: Kshare) -> None:
    done = run("decode", "--as", "ShareFetchRequest", "--version", "9", "00")
    assert (done.code, done.err) == (2, "kshare: ShareFetchRequest has no version 9: 1 to 2 are known\n")
    done = run("decode", "--as", "response", "--api", "ShareFetch", "--version", "9", "00000000")
    assert (done.code, done.err) == (2, "kshare: no known message fits this kind, API and version\n")
