"""Settings of what finds a cluster through ZooKeeper: the ensemble, TLS to it, a node's rights."""

from __future__ import annotations

import re
from typing import NamedTuple

from raftlog.config_hosts import PORT_MAX, is_host
from raftlog.config_secrets import refuse_bare_secret
from raftlog.config_section import Section, setting
from raftlog.config_tls import PemFiles, client_files
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address

ROOT_DEFAULT = "/raftlog"
"""The path of a cluster in an ensemble, if the setting names none."""

CREDENTIALS_FORM = "a text user:password"

_HOST = re.compile(r"(\[[^]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_NAME = re.compile(r"[0-9A-Za-z._-]{1,100}")


class EnsembleSettings(Section):
    """How to reach a ZooKeeper ensemble. `[client]` and `[discovery]` both have these keys."""

    zookeeper: str = setting(
        "",
        "The ZooKeeper ensemble that knows the cluster's nodes, as host:port,host:port/path; the "
        "path is the cluster's own, /raftlog if left out. Empty: ZooKeeper is not used.",
    )
    zookeeper_session_timeout_s: float = setting(
        10.0,
        "After this long without a sign of life the ensemble ends a session, and a node's entry "
        "disappears. The ensemble may bound it: 2 to 20 of its ticks.",
        ge=1,
        le=600,
    )
    zookeeper_ca_file: str = setting(
        "",
        "PEM file with the certificates of who may sign the ensemble's. If it is given, the "
        "connection is encrypted and the ensemble's host names are checked.",
    )
    zookeeper_cert_file: str = setting(
        "", "PEM file with the certificate to show to the ensemble, if it asks for one."
    )
    zookeeper_key_file: str = setting("", "PEM file with that certificate's private key.")


class DiscoverySettings(EnsembleSettings):
    """What a node tells ZooKeeper. Its truth is its log: it starts and serves without ZooKeeper."""

    zookeeper_credentials: str = setting(
        "",
        "Where `user:password` is found: file:PATH or env:NAME. Then only this user may change the "
        "cluster's entries, and everybody may read them. Empty: everybody may change them.",
    )


class Ensemble(NamedTuple):
    """A setting `zookeeper`, parsed."""

    hosts: str
    """`host:port`, comma-separated."""
    root: str
    """The path of the cluster in the ensemble: no slash at its end."""


def parse_ensemble(text: str, option: str) -> Ensemble:
    """What the option `option` names. Raises `InvalidOption`."""
    servers, slash, path = text.strip().partition("/")
    hosts = [host.strip() for host in servers.split(",")]
    names = path.split("/") if slash else []
    for host in hosts:
        found = _HOST.fullmatch(host)
        if found is None or not is_host(found[1]) or not 0 < int(found[2] or "2181") <= PORT_MAX:
            raise _refused(option, f"holds {shown_address(host, text)!r}, which is not host:port")
    for name in names:
        if _NAME.fullmatch(name) is None or not name.strip("."):
            shown = "/" + shown_address(path)
            raise _refused(option, f"has the path {shown!r}, with the part {shown_address(name)!r}")
    if names[:1] == ["zookeeper"]:
        raise _refused(option, "has a path below /zookeeper, which is the ensemble's own")
    return Ensemble(hosts=",".join(hosts), root="/" + path if names else ROOT_DEFAULT)


def _refused(option: str, problem: str) -> InvalidOption:
    return InvalidOption(
        option=option,
        problem=problem,
        advice="Write for example zk1:2181,zk2:2181,zk3:2181/raftlog/sales: hosts with ports, then "
        "a path of letters, digits, '.', '_' and '-'.",
    )


def found_by(
    servers: str | None, zookeeper: str | None, options: tuple[str, str]
) -> dict[str, str]:
    """The client's settings for one of two `options` that was given; none if neither was.

    What was given replaces what other sources say, whichever of the two that is. Raises
    `InvalidOption` if both were given.
    """
    if servers and zookeeper:
        raise InvalidOption(
            option=options[1],
            problem=f"is given, and {options[0]!r} as well",
            advice="A client finds its cluster in one way: leave one of the two out.",
        )
    if servers is None and zookeeper is None:
        return {}
    if not (servers or zookeeper):
        raise InvalidOption(
            option=options[0] if zookeeper is None else options[1],
            problem="is given and empty",
            advice="Name the cluster's nodes or its ensemble, or leave the option out.",
        )
    return {"bootstrap_servers": servers or "", "zookeeper": zookeeper or ""}


def refuse_half(section: str, settings: EnsembleSettings) -> None:
    """Refuse settings of an ensemble that do not go together. Raises `InvalidOption`."""
    if settings.zookeeper:
        parse_ensemble(settings.zookeeper, f"{section}.zookeeper")
    if isinstance(settings, DiscoverySettings):
        option = f"{section}.zookeeper_credentials"
        refuse_bare_secret(option, settings.zookeeper_credentials, CREDENTIALS_FORM)
    keys = [f"zookeeper_{which}_file" for which in PemFiles._fields]
    files = PemFiles(*(getattr(settings, key) for key in keys))
    client_files(files, PemFiles(*(f"{section}.{key}" for key in keys)))
