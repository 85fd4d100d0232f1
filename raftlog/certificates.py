"""Certificates for trying and for small clusters: a CA of a cluster's own, and what it signs.

    ca.pem, ca.key           the CA; its key can make nodes and clients
    node-3.pem, node-3.key   node 3's: its name among nodes (`raftlog.tls.peer_name`), its hosts
    client.pem, client.key   for clients, where nodes ask for a certificate

A company's own CA does as well: what counts is the names.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from raftlog.changing_files import replace_whole
from raftlog.config_hosts import is_loopback
from raftlog.errors import InvalidOption
from raftlog.tls import peer_name

CA_DAYS = 3650
_CLOCKS_DIFFER = datetime.timedelta(minutes=5)
"""A certificate counts from this long ago: clocks of hosts differ."""


class Made(NamedTuple):
    """A certificate that was made."""

    file: Path
    names: tuple[str, ...]
    """Those that it proves."""
    ends: datetime.datetime


class _Authority(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def end_of_certificate_s(shown: Mapping[str, Iterable[bytes]]) -> float:
    """When the certificate ends that a connection was made with, by the clock; 0.0: it has none.

    `shown`: what grpc says of the connection. A handshake rejects a certificate that has ended, but
    not where it resumes the session of an earlier one, and a connection may outlast it.
    """
    return min(map(_end_s, shown.get("x509_pem_cert", ())), default=0.0)


@lru_cache(maxsize=1024)
def _end_s(pem: bytes) -> float:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return 0.0


def make_certificates(
    folder: Path, *, cluster_id: str, hosts: Mapping[int, str], days: int
) -> list[Made]:
    """Make new certificates for the nodes and for clients, signed by the folder's CA, which is made
    if there is none. Each file is replaced as a whole, so nodes and clients that run take them up.

    `hosts`: where each node listens, without port. Raises `InvalidOption` for a CA that cannot be
    read, `OSError`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _authority(folder, cluster_id)
    made = []
    for node, host in hosts.items():
        names = [peer_name(cluster_id, node), host.strip("[]")]
        if is_loopback(host):
            names += [each for each in ("localhost", "127.0.0.1") if each not in names]
        both = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        made.append(_leaf(folder / f"node-{node}", authority, f"node-{node}", names, both, days))
    uses = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    made.append(_leaf(folder / "client", authority, "client", (), uses, days))
    return made


def ends_at(pem: bytes) -> datetime.datetime:
    """When the certificate ends that comes first in the text."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


def _authority(folder: Path, cluster_id: str) -> _Authority:
    cert_file, key_file = folder / "ca.pem", folder / "ca.key"
    if cert_file.exists() or key_file.exists():
        try:
            key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
            certificate = x509.load_pem_x509_certificate(cert_file.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise InvalidOption(
                option="--data",
                problem=f"has no CA that can be used in {folder} ({type(error).__name__})",
                advice=f"Bring {cert_file.name} and {key_file.name} back, without a password. "
                "Only if no node and no client trusts that CA any more: delete both, and others "
                "are made.",
            ) from None
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return _Authority(key, certificate)
        raise InvalidOption(
            option="--data",
            problem=f"has a CA in {folder} that was made elsewhere",
            advice="Sign the nodes' certificates where that CA is used otherwise.",
        )
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(f"raftlog {cluster_id}")
    certificate = (
        _begun(name, name, key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    replace_whole(key_file, _key_pem(key))
    replace_whole(cert_file, certificate.public_bytes(serialization.Encoding.PEM))
    return _Authority(key, certificate)


def _leaf(
    stem: Path,
    authority: _Authority,
    subject: str,
    names: Sequence[str],
    uses: Sequence[x509.ObjectIdentifier],
    days: int,
) -> Made:
    key = ec.generate_private_key(ec.SECP256R1())
    of_authority = authority.key.public_key()
    builder = (
        _begun(_named(subject), authority.certificate.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(of_authority), critical=False
        )
    )
    if names:
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternative, critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    file = stem.with_suffix(".pem")
    replace_whole(stem.with_suffix(".key"), _key_pem(key))
    replace_whole(file, certificate.public_bytes(serialization.Encoding.PEM))
    return Made(file, tuple(names), certificate.not_valid_after_utc)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
