"""Translates exceptions of sockets, TLS and anyio into KshareErrors.

A refused certificate or login becomes AuthenticationFailed, everything else ConnectionLost. If a connection ends before
it is usable, its first bytes, or the moment of its end, hint at what is wrong: it isn't a Kafka listener, or needs
other security.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl

import anyio

from kshare.errors import AuthenticationFailed, ConnectionLost, KshareError
from kshare.net.settings import Security

HOSTNAME_MISMATCH = {62, 63, 64}
"""OpenSSL's codes for a certificate of another host, e-mail address or IP address."""
_EXPIRED, _NOT_YET_VALID = 10, 9

FIRST_BYTES = 4
"""How many of the first bytes received to keep."""
_CLI = " (on the command line: configure it with --command-config)"
_TLS_ALERT, _HTTP = b"\x15\x03", b"HTTP"
_REFUSED_BY_PEER = ("ALERT", "CERTIFICATE_REQUIRED")
_PLAINTEXT_PEER = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")


def connect_error(error: BaseException, peer: str) -> KshareError:
    """The error for a connection that couldn't be made."""
    if isinstance(error, KshareError):
        return error
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return _of_tls(error, peer)
    return ConnectionLost(f"can't reach {peer}: {reason(error)}")


def connection_error(error: BaseException, peer: str) -> KshareError:
    """The error for an existing connection that has ended."""
    if isinstance(error, KshareError):
        return error
    if isinstance(error, anyio.EndOfStream):
        return ConnectionLost(f"{peer} closed the connection")
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return _of_tls(error, peer)
    return ConnectionLost(f"the connection to {peer} broke: {reason(error)}")


def reason(error: BaseException) -> str:
    """The innermost cause in plain words: it says more than anyio's wrapper."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            return "; ".join(dict.fromkeys(reason(exception) for exception in error.exceptions))
        if isinstance(error, OSError | anyio.BrokenResourceError) and error.__cause__ is not None:
            error = error.__cause__
            continue
        break
    if isinstance(error, socket.gaierror):
        return f"the name can't be resolved ({(error.strerror or str(error)).lower()})"
    if isinstance(error, UnicodeError):
        return "the name is not a valid host name"
    if isinstance(error, anyio.EndOfStream):
        return "it closed the connection"
    if isinstance(error, anyio.ClosedResourceError):
        return "it was closed on this side"
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(
            error.errno
        ).lower()  # asyncio puts the address into its own text, which we name anyway
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


class Proof:
    """Whether a connection with the same settings was usable once: then the settings are right, and brokers stop."""

    def __init__(self) -> None:
        self.is_given = False


def connect_hint(
    opening: bytes, security: Security, *, responses: int, is_waiting: bool, is_proven: bool = False
) -> str:
    """A hint to append to the reason of the disconnect; empty if nothing seems wrong."""
    if opening.startswith(_TLS_ALERT):
        return f"; it looks like TLS: add tls=True{_CLI}"
    if opening.startswith(_HTTP):
        return "; it looks like HTTP: this isn't a Kafka listener"
    if is_proven:
        return ""
    if responses == 0 and security.tls is True and security.cert_file is None:
        return f"; if its listener requires a client certificate, set cert_file{_CLI}"
    if responses == 0 and is_waiting and security.tls is False:
        return f"; if its listener requires TLS or SASL, set tls or sasl_mechanism{_CLI}"
    if responses <= 1 and is_waiting and security.sasl_mechanism is None:
        return f"; if its listener requires SASL, set sasl_mechanism{_CLI}"
    return ""


def _of_tls(error: BaseException, peer: str) -> KshareError:
    tls = error if isinstance(error, ssl.SSLError) else error.__cause__
    if isinstance(tls, ssl.SSLCertVerificationError):
        return AuthenticationFailed(_certificate_problem(tls, peer))
    name = (getattr(tls, "reason", None) or "").upper()
    if any(part in name for part in _REFUSED_BY_PEER):
        alert = name.partition("ALERT_")[2] or name
        alert = alert.replace("_", " ").lower()
        return AuthenticationFailed(
            f"{peer} rejected this client during the TLS handshake ({alert}): it may require a client certificate "
            "(cert_file, key_file) "
            "signed by an authority that it trusts"
        )
    if name in _PLAINTEXT_PEER:
        return ConnectionLost(f"{peer} doesn't speak TLS: is this a plaintext listener? Then leave tls out")
    if not name or "EOF" in name:
        return ConnectionLost(f"{peer} closed the connection without a TLS close_notify")
    return ConnectionLost(f"TLS with {peer} failed: {name.replace('_', ' ').lower()}")


def _certificate_problem(error: ssl.SSLCertVerificationError, peer: str) -> str:
    code = error.verify_code
    if code in HOSTNAME_MISMATCH:
        return (
            f"the certificate of {peer} is for another name ({error.verify_message}): connect by a name in it"
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        return (
            f"the certificate of {peer} isn't valid now ({error.verify_message}): renew it, or set the clock"
        )
    return (
        f"the certificate of {peer} isn't signed by an authority that this client trusts ({error.verify_message}): "
        "name its authority with ca_file"
    )
