"""Encrypted connections: certificates that are read again when their files change, and channels.

Who connects to a node checks that the node's certificate names the host. Between nodes both sides
show a certificate, at a port of their own, and it names the very node: `peer_name`. So a node
cannot speak as another one, and another cluster's cannot speak at all, even if one CA signed for
both.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import grpc
import grpc.aio
import tenacity
from pydantic import SecretBytes

from raftlog.changing_files import Latest
from raftlog.config_tls import PemFiles
from raftlog.core.types import NodeId
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_location

_NODE_DIGITS_MAX = 10
"""A node's id is less than 2**32."""

_REPLACED_S = 3.0
"""A certificate and its key are replaced one after the other, within this time. No
setting: a process that starts in between waits no longer."""

_FILE_BYTES_MAX = 1 << 20
"""The longest file that is read; no setting: all of the world's public authorities need a quarter
of it. An option may name any file, such as a device without end."""

ChannelOptions: TypeAlias = Sequence[tuple[str, int | str]]


def peer_name(cluster_id: str, node: int) -> str:
    """The DNS name that a node's certificate has for the other nodes."""
    return f"node-{node}.{cluster_id}.raftlog.internal"


def is_peer_name(name: str) -> bool:
    """Is it such a name, of whichever cluster?"""
    kind, _, rest = name.lower().partition("-")
    number, _, domain = rest.partition(".")
    return kind == "node" and number.isdecimal() and domain.endswith(".raftlog.internal")


def node_of(name: str, cluster_id: str) -> NodeId | None:
    """The node that such a name of this cluster is; None: it is another kind of name."""
    number = name.removeprefix("node-").partition(".")[0]
    if not number.isascii() or not number.isdecimal() or len(number) > _NODE_DIGITS_MAX:
        return None
    return NodeId(int(number)) if name == peer_name(cluster_id, int(number)) else None


class Pem(NamedTuple):
    """What files held at a time."""

    ca: bytes
    cert: bytes
    key: SecretBytes


class Certificates:
    """The content of PEM files as it is now, as `Latest` has it."""

    def __init__(
        self,
        files: PemFiles,
        options: PemFiles,
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> None:
        """Reads the files, which the `options` name; `on_problem` is told what is wrong with later
        ones. Raises `InvalidOption`."""
        paths = [path for path in files if path]
        self._latest = Latest(
            paths,
            lambda: _usable(files, options),
            on_problem,
            first=lambda: _usable(files, options, _REPLACED_S),
        )

    def current(self) -> Pem:
        """What the files hold, or held when they could last be used. The same object as long as
        that does not change."""
        return self._latest.now()


def _usable(files: PemFiles, options: PemFiles, patience_s: float = 0.0) -> Pem:
    reading = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_NoPair),
        wait=tenacity.wait_fixed(_REPLACED_S / 100),
        stop=tenacity.stop_after_delay(patience_s),
        reraise=True,
    )
    try:
        return reading(_read, files)
    except _Unusable as error:
        raise InvalidOption(
            option=options[error.which],
            problem=f"cannot be used: {error}",
            advice="Give PEM files that belong together and that this process may read "
            "(`raftlog certs` makes some).",
        ) from None


class _Unusable(Exception):
    """`which` of the files is to blame: 0 the CA's, 1 the certificate, 2 its key."""

    def __init__(self, which: int, text: str) -> None:
        super().__init__(text)
        self.which = which


class _NoPair(_Unusable):
    """A certificate without its private key: they may just be being replaced."""


def _read(files: PemFiles) -> Pem:
    pem = _contents(files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(cadata=pem.ca.decode("ascii", "ignore"))
    except (ValueError, ssl.SSLError):
        raise _Unusable(0, f"{files.ca} holds no certificate") from None
    if files.cert:
        try:
            context.load_cert_chain(files.cert, files.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError):
            problem = f"{files.cert} and {files.key} are no certificate with its private key"
            raise _NoPair(1, problem) from None
        if _contents(files) != pem:
            raise _NoPair(1, f"{files.cert} was replaced while it was read")
    return pem


def _contents(files: PemFiles) -> Pem:
    ca, cert, key = (_content(which, path) if path else b"" for which, path in enumerate(files))
    return Pem(ca, cert, SecretBytes(key))


def _content(which: int, path: str) -> bytes:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(_FILE_BYTES_MAX + 1) if is_regular else b""
    except OSError as error:
        raise _Unusable(which, f"{_shown(path)}: {error.strerror}") from None
    except ValueError as error:  # no path can have such a character
        raise _Unusable(which, f"{_shown(path)}: {error}") from None
    if not is_regular:
        raise _Unusable(which, f"{_shown(path)} is not a regular file")
    if len(content) > _FILE_BYTES_MAX:
        raise _Unusable(which, f"{_shown(path)} has more than {_FILE_BYTES_MAX} bytes")
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Also a FIFO that nothing writes."""
    return os.open(path, flags | os.O_NONBLOCK)


def _shown(path: str) -> str:
    """A path for a message. It may be a private key itself, by mistake."""
    is_path = path.isprintable() and "-----" not in path
    return shown_location(path) if is_path else "what it has is the PEM's text, or no path"


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise ValueError("the key has a password")


# ---------------------------------------------------------------- a node's ports


def port_credentials(certificates: Certificates, *, mutual: bool) -> grpc.ServerCredentials:
    """For one port of one server. `mutual`: who connects must show a certificate too. Connections
    that are open stay as they are when a certificate is replaced."""
    shown = certificates.current()

    def now() -> grpc.ServerCertificateConfiguration | None:
        """None: as before."""
        nonlocal shown
        pem = certificates.current()
        if pem is shown:
            return None
        shown = pem
        return _configuration(pem, mutual)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(shown, mutual),
        now,  # type: ignore[arg-type]  # its stub knows nothing of None
        require_client_authentication=mutual,
    )


def _configuration(pem: Pem, mutual: bool) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pem.key.get_secret_value(), pem.cert)], root_certificates=pem.ca if mutual else None
    )


# ---------------------------------------------------------------- channels


NO_PROXY = (("grpc.enable_http_proxy", 0), ("grpc.address_http_proxy_enabled_addresses", ""))
"""Else grpc takes the proxies that the environment names (http_proxy, GRPC_ADDRESS_HTTP_PROXY and
others), also to reach this machine itself."""


def open_channel(address: str, pem: Pem | None, options: ChannelOptions) -> grpc.Channel:
    """A client's channel to a node; without `pem` it is not encrypted."""
    if pem is None:
        return grpc.insecure_channel(_target(address), options=options)
    return grpc.secure_channel(_target(address), _channel_credentials(pem), options=options)


def open_aio_channel(
    address: str, pem: Pem | None, options: ChannelOptions, *, name: str = ""
) -> grpc.aio.Channel:
    """A node's channel to another, never through a proxy. `name`: what the certificate must name in
    place of the host."""
    options = (*options, *NO_PROXY)
    if pem is None:
        return grpc.aio.insecure_channel(_target(address), options=options)
    named = [("grpc.ssl_target_name_override", name)] if name else []
    credentials = _channel_credentials(pem)
    return grpc.aio.secure_channel(_target(address), credentials, options=[*options, *named])


def _target(address: str) -> str:
    """The address, resolved by DNS alone: grpc gives `unix:7401` and `xds:7401` another meaning."""
    return f"dns:///{address}"


def _channel_credentials(pem: Pem) -> grpc.ChannelCredentials:
    key = pem.key.get_secret_value()
    return grpc.ssl_channel_credentials(pem.ca, key or None, pem.cert or None)
