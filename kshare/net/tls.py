"""TLS: the context from the settings, and the handshake."""

from __future__ import annotations

import os
import ssl

import anyio

from kshare.errors import ConfigError
from kshare.net.settings import Security
from kshare.net.tcp import TcpStream


def make_context(security: Security) -> ssl.SSLContext:
    """Reads the files named in the settings. Blocks, so call it in a thread."""
    if isinstance(security.tls, ssl.SSLContext):
        return security.tls
    context = _authorities(security)
    context.check_hostname = security.check_hostname
    if security.cert_file is not None:
        _load_own_certificate(context, security)
    return context


async def wrap(stream: TcpStream, context: ssl.SSLContext, host: str) -> TcpStream:
    """Performs the handshake and takes over the stream's socket.

    Kafka's frames carry their length, so a truncated stream is noticed without close_notify, and closing needn't wait
    for it.
    """
    name = host.partition("%")[0]  # certificates don't contain the zone of a link-local address
    secured = context.wrap_socket(stream.socket, server_hostname=name, do_handshake_on_connect=False)
    try:
        await _handshake(secured)
    except BaseException:
        secured.close()
        raise
    return TcpStream(secured)


async def _handshake(secured: ssl.SSLSocket) -> None:
    while True:
        try:
            return secured.do_handshake()
        except ssl.SSLWantReadError:
            await anyio.wait_readable(secured)
        except ssl.SSLWantWriteError:
            await anyio.wait_writable(secured)
        except ssl.SSLEOFError:
            raise anyio.EndOfStream from None


def _authorities(security: Security) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=security.ca_file)
    except ssl.SSLError as error:
        raise ConfigError(
            f"ca_file {security.ca_file} contains no certificates in PEM format ({error.reason})"
        ) from None
    except OSError as error:
        raise ConfigError(f"ca_file {security.ca_file} can't be read: {error.strerror}") from None


def _load_own_certificate(context: ssl.SSLContext, security: Security) -> None:
    assert security.cert_file is not None

    def password() -> str:
        return security.key_password or ""  # otherwise OpenSSL would prompt on the terminal

    try:
        context.load_cert_chain(security.cert_file, security.key_file, password)
    except ssl.SSLError as error:
        key = security.key_file or security.cert_file
        hint = "" if security.key_password else "; if the key is encrypted, add key_password"
        raise ConfigError(
            f"cert_file {security.cert_file} with the key in {key} can't be used "
            f"({error.reason or 'wrong format or password'}){hint}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{_unreadable(security)} can't be read: {error.strerror}") from None


def _unreadable(security: Security) -> str:
    """OpenSSL doesn't say which file it is. They may be pipes, and so they aren't opened a second time."""
    for option, path in (("cert_file", security.cert_file), ("key_file", security.key_file)):
        if path is not None and not os.access(path, os.R_OK):
            return f"{option} {path}"
    return f"cert_file {security.cert_file} or key_file {security.key_file}"
