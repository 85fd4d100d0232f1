"""Settings of TLS: what a node shows at its ports, and which CAs it and clients trust."""

from __future__ import annotations

from typing import NamedTuple

from raftlog.config_hosts import PORT_MAX
from raftlog.config_section import Section, half_given, setting
from raftlog.errors import InvalidOption


class PemFiles(NamedTuple):
    """Where certificates and a private key are found; or the options that say so."""

    ca: str
    """Of who may sign the other side's certificate."""
    cert: str = ""
    """One's own, with those above it; "": one shows none."""
    key: str = ""


class TlsSettings(Section):
    """TLS at a node's ports. All nodes of a cluster have it, or none."""

    cert_file: str = setting(
        "",
        "PEM file with the node's certificate and those above it; `{node}` in the path stands for "
        "the node's id. It names the node, as `raftlog certs` does, and the hosts under which "
        "others reach it. Replace the file, and new connections see it. Empty: no TLS.",
    )
    key_file: str = setting(
        "", "PEM file with that certificate's private key; `{node}` as in tls.cert_file."
    )
    ca_file: str = setting(
        "",
        "PEM file with the certificates of who may sign those of nodes, and of clients where these "
        "must show one.",
    )
    client_certificates: bool = setting(
        False, "Whether clients must show a certificate that one of tls.ca_file signed."
    )
    peer_port_offset: int = setting(
        100,
        "Nodes reach one another at their port plus this, where both sides show certificates. "
        "Only nodes need to reach it. All nodes must have the same.",
        ge=1,
        le=PORT_MAX - 1,
    )

    def files_of(self, node: int) -> PemFiles | None:
        """The node's files; None: it has no TLS."""
        if not self.cert_file:
            return None
        own, key = (text.replace("{node}", str(node)) for text in (self.cert_file, self.key_file))
        return PemFiles(self.ca_file, own, key)


def refuse_half_tls(settings: TlsSettings) -> None:
    """Refuse a node's settings that do not go together. Raises `InvalidOption`."""
    given = {f"tls.{key}": getattr(settings, key) for key in ("cert_file", "key_file", "ca_file")}
    if (half := half_given(given)) is not None:
        raise InvalidOption(
            option=half[0],
            problem=f"is given without {half[1]}",
            advice="A node shows its certificate and checks those of others: give all three.",
        )


def client_files(files: PemFiles, options: PemFiles) -> PemFiles | None:
    """What one side of a connection was given by the `options`; None: no TLS. Raises
    `InvalidOption` for what does not go together."""
    refuse_half_pair(files, options)
    if files.cert and not files.ca:
        raise InvalidOption(
            option=options.cert,
            problem=f"is given without {options.ca}",
            advice="Say who may sign the other side's certificates, or leave both out.",
        )
    return files if files.ca else None


def refuse_half_pair(files: PemFiles, options: PemFiles) -> None:
    """Refuse a certificate without its key, or a key without its certificate. Raises
    `InvalidOption`, which names the `options`."""
    if bool(files.cert) != bool(files.key):
        given, missing = (options.cert, options.key) if files.cert else (options.key, options.cert)
        raise InvalidOption(
            option=given,
            problem=f"is given without {missing}",
            advice="A certificate is of use only with its private key: give both.",
        )
