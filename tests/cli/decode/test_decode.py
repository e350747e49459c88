"""`kshare decode`: what it shows of sound, broken and secret bytes, in each of its views."""

from __future__ import annotations

import base64
import json

from tests.cli import frames
from tests.cli.running import Kshare


def test_a_request_says_itself_what_it_is(run: Kshare) -> None:
    done = run("decode", frames.fetch_request().hex())
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"ShareFetchRequest v2  {len(frames.fetch_request())} bytes"
    assert "4-5          requestApiKey 78  ShareFetch" in lines
    assert '12-15        clientId "me"' in lines


def test_a_response_is_guessed_down_to_its_records(run: Kshare) -> None:
    done = run("decode", frames.fetch_response().hex())
    assert done.code == 0
    assert done.out.startswith("ShareFetchResponse v2")
    assert 'value "order 1"' in done.out
    assert "offset 101" in done.out
    assert "deliveryCount 1" in done.out


def test_the_hex_view_shows_every_byte_in_its_place(run: Kshare) -> None:
    frame = frames.fetch_response()
    done = run("decode", "--hex", frame.hex())
    rows = [line for line in done.out.splitlines()[1:] if line[:8].strip(" ") and line[8:10] == "  "]
    shown = bytearray()
    for row in rows:
        if row[:8].isalnum():
            assert int(row[:8], 16) == len(shown)
            shown += bytes.fromhex(row[10:33])
    assert bytes(shown) == frame


def test_json_has_the_form_that_encode_takes(run: Kshare) -> None:
    form = json.loads(run("decode", "--json", frames.fetch_request().hex()).out)
    assert (form["message"], form["version"], form["problems"]) == ("ShareFetchRequest", 2, [])
    assert form["header"]["correlationId"] == 7
    assert form["body"]["topics"][0]["partitions"][1]["partitionIndex"] == 1


def test_one_field_is_picked(run: Kshare) -> None:
    frame = frames.fetch_request().hex()
    done = run("decode", "--field", "topics[0].partitions[1]", frame)
    assert done.code == 0
    assert "partitionIndex 1" in done.out
    assert "groupId" not in done.out
    form = json.loads(run("decode", "--json", "--field", "topics[0].partitions[1].partitionIndex", frame).out)
    assert (form["type"], form["length"], form["value"]) == ("int32", 4, 1)


def test_a_field_that_is_not_there_is_a_failure(run: Kshare) -> None:
    done = run("decode", "--field", "topics[7]", frames.fetch_request().hex())
    assert (done.code, done.out, done.err) == (1, "", "kshare: there is no field topics[7]\n")


def test_a_broken_frame_is_shown_up_to_the_break(run: Kshare) -> None:
    frame = frames.fetch_request()[:80]
    done = run("decode", frame.hex())
    assert done.code == 1
    assert 'groupId "orders"' in done.out
    assert done.err.startswith("kshare: topics[0].topicId at byte 74: needs 16 bytes, 6 left")
    assert done.err.count("\n") == 1


def test_a_frame_cut_anywhere_is_never_a_traceback(run: Kshare) -> None:
    frame = frames.fetch_response()
    for length in range(1, len(frame)):
        for view in ("--json", "--hex"):
            done = run("decode", view, "--api", "ShareFetch", "--version", "2", frame[:length].hex())
            assert (done.code, done.err.count("\n")) == (1, 1), done
            assert "bug" not in done.err, length


def test_a_wrong_checksum_is_told_and_reading_goes_on(run: Kshare) -> None:
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
            for cut in (0, 3):  # the second one breaks
                done = run("decode", *source, *view, data[: len(data) - cut].hex())
                shown = done.out + done.err
                for secret in (frames.PASSWORD.decode(), frames.PASSWORD[3:8].hex(" "), "user"):
                    assert secret not in shown
                assert base64.b64encode(frames.PASSWORD[:9]).decode() not in shown


def test_several_frames_are_shown_one_after_another(run: Kshare) -> None:
    first, second = frames.fetch_request(), frames.login()
    done = run("decode", (first + second).hex())
    assert done.code == 0
    assert f"SaslAuthenticateRequest v2  {len(second)} bytes from {len(first)}" in done.out
    assert f"{len(first)}-{len(first) + 3}" in done.out


def test_a_body_alone_is_read_by_its_name(run: Kshare) -> None:
    frame = frames.fetch_request()
    done = run("decode", "--as", "ShareFetchRequest", "--version", "2", frame[17:].hex())
    assert (done.code, done.err) == (0, "")
    assert 'groupId "orders"' in done.out


def test_a_request_with_bytes_behind_it_is_read_and_they_are_named(run: Kshare) -> None:
    """As librdkafka 2.16 asks for all topics; brokers don't mind the bytes."""
    body = bytes.fromhex("0003000d00000005000772646b61666b610000000000010000")
    done = run("decode", (len(body).to_bytes(4, "big") + body).hex())
    assert done.out.startswith("MetadataRequest v13")
    assert "22         topics null" in done.out
    assert "26-28      unread  3 bytes after the end" in done.out
    assert (done.code, done.err) == (1, "kshare: unread at byte 26: 3 bytes after the end\n")
