"""A cluster that is closed to strangers, whose certificates, keys and tokens are replaced all the
time: its members and clients must not notice.

    FOLDER/tokens           the hashes of tokens
    FOLDER/token            the token of all clients, which is another one now and then
    FOLDER/admin            the token of who grants them their rights
    FOLDER/audit-N.jsonl    node N's acts and refusals
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from raftlog.auth.principals import token_group, token_principal
from raftlog.auth.quotas import Limit
from raftlog.auth.rights import Kind, Resource, Right
from raftlog.auth.token_file import add_token
from raftlog.certificates import make_certificates
from raftlog.changing_files import replace_whole
from raftlog.client.log_client import LogClient, NodeView
from raftlog.core.types import CONTROLLER_GROUP
from raftlog.errors import RaftlogError

ROTATION_S = 60.0
"""How often everything is replaced."""

_TRUSTED_S = 20.0
"""So long before it signs anything a new CA is trusted, and a new token known before it is shown: a
node looks at its files each second, and may be paused for some."""
_TOKEN_LASTS = timedelta(seconds=3 * ROTATION_S)
_DAYS = 1
_IDENTITY = "chaos"
_ADMIN = "chaos-admin"
_FAR = 10**15
_REFUSALS = frozenset({"Unauthenticated", "Forbidden", "PeerUnproven"})
"""Not `RightsUnknown`, for a while: a node that has just started asks the others for the rights."""


class Closed:
    """What makes the nodes of a folder closed, and replaces what they show and trust."""

    def __init__(self, folder: Path, tls: Path, ids: Sequence[int]) -> None:
        """`tls`: the folder of certificates that `raftlog up --tls` is going to make; `ids`: the
        numbers of all nodes that may come. Makes `folder` and the first token."""
        self._folder = folder
        self._tls = tls
        self._hosts = dict.fromkeys(ids, "127.0.0.1")
        self.rotations = 0
        """How often everything was replaced."""
        self.failures: list[BaseException] = []
        """What ended the rotation."""
        folder.mkdir()
        self._take_token(self._new_token())
        now = datetime.now(UTC)
        (folder / "admin").write_text(add_token(folder / "tokens", _ADMIN, (), None, now))

    @property
    def ports(self) -> int:
        """Neighbouring ports that the nodes need: for clients, nodes and scrapers."""
        return 3 * self.peer_port_offset

    @property
    def peer_port_offset(self) -> int:
        """From a node's port to the one where other nodes reach it."""
        return 1 + max(self._hosts)

    @property
    def token(self) -> str:
        """Where clients find their token."""
        return f"file:{self._folder / 'token'}"

    @property
    def admin_token(self) -> str:
        """Where the token is of who may grant rights."""
        return f"file:{self._folder / 'admin'}"

    @property
    def settings(self) -> tuple[str, ...]:
        """The nodes' settings, `section.key=value`."""
        return (
            f"tls.cert_file={self._tls / 'node-{node}.pem'}",
            f"tls.key_file={self._tls / 'node-{node}.key'}",
            f"tls.ca_file={self._tls / 'ca.pem'}",
            f"tls.peer_port_offset={self.peer_port_offset}",
            f"client.tls_ca_file={self._tls / 'ca.pem'}",
            f"auth.tokens_file={self._folder / 'tokens'}",
            f"auth.admins={token_principal(_ADMIN)}",
            f"audit.file={self._folder / 'audit-{node}.jsonl'}",
            f"metrics.listen=127.0.0.1:+{2 * self.peer_port_offset}",
            f"metrics.token={self.token}",
        )

    def begin(self, admin: LogClient) -> None:
        """Certificates for all nodes that may come; rights, and quotas that hold no caller back.
        Nodes take them up within seconds (`lets_in`)."""
        self._cluster_id = admin.cluster_id()
        self._sign(self._tls)
        admin.acl.grant(token_group(_IDENTITY), list(Right), Resource(Kind.ALL, ""))
        far = dict.fromkeys(Limit, _FAR)
        admin.quotas.set(token_group(_IDENTITY), far)

    def lets_in(self, client: LogClient) -> bool:
        """Whether all nodes let a client act that has rights on everything."""
        answers = client.scrub([CONTROLLER_GROUP])
        return all(isinstance(each.answer, NodeView) for each in answers)

    @contextmanager
    def rotating(self) -> Iterator[None]:
        """Everything is replaced again and again meanwhile."""
        stop = threading.Event()

        def run() -> None:
            try:
                while not stop.wait(ROTATION_S - _TRUSTED_S):
                    self._rotate(stop)
            except (OSError, RaftlogError) as error:
                self.failures.append(error)

        thread = threading.Thread(target=run, name="rotation")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def troubles(self) -> list[str]:
        """What ended the rotation, and what the nodes refused, by their audit logs: nothing, if
        all went well."""
        rows = (
            json.loads(line)
            for file in sorted(self._folder.glob("audit-*.jsonl*"))
            for line in file.read_text().splitlines()
        )
        # `lets_in` asks until it is let in; and who needs a scrub waits for it.
        refused = (row for row in rows if row["outcome"] in _REFUSALS and row["call"] != "Scrub")
        return [
            *(f"the rotation ended: {error!r}" for error in self.failures),
            *(f"{row['who']} was refused {row['call']}: {row['outcome']}" for row in refused),
        ]

    # ------------------------------------------------------------ parts

    def _rotate(self, stop: threading.Event) -> None:
        """A new CA is trusted, and a new token known; then everything is signed by it, and
        the new token is shown. The former CA is trusted until the next time."""
        tls = self._tls
        with tempfile.TemporaryDirectory() as made:
            new = Path(made)
            self._sign(new)
            former, authority = _first(tls / "ca.pem"), (new / "ca.pem").read_bytes()
            replace_whole(tls / "ca.pem", former + authority)
            token = self._new_token()
            stop.wait(_TRUSTED_S)
            replace_whole(tls / "ca.key", (new / "ca.key").read_bytes())
            replace_whole(tls / "ca.pem", authority + former)
            for cert in (each for each in new.glob("*.pem") if each.stem != "ca"):
                for file in (cert.with_suffix(".key"), cert):
                    replace_whole(tls / file.name, file.read_bytes())
            self._take_token(token)
        self.rotations += 1

    def _sign(self, folder: Path) -> None:
        make_certificates(folder, cluster_id=self._cluster_id, hosts=self._hosts, days=_DAYS)

    def _new_token(self) -> str:
        now = datetime.now(UTC)
        return add_token(self._folder / "tokens", _IDENTITY, (_IDENTITY,), now + _TOKEN_LASTS, now)

    def _take_token(self, token: str) -> None:
        replace_whole(self._folder / "token", token.encode())


def _first(bundle: Path) -> bytes:
    """The first certificate of a PEM file."""
    end = b"-----END CERTIFICATE-----\n"
    return bundle.read_bytes().partition(end)[0] + end
