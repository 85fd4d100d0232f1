"""A session with a ZooKeeper ensemble: kazoo's client, with our settings. It does the reconnecting.

kazoo's own log lines go nowhere: they would hold the password at its most talkative level.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl
from pydantic import SecretStr

from raftlog.config_ensemble import (
    CREDENTIALS_FORM,
    DiscoverySettings,
    Ensemble,
    EnsembleSettings,
    parse_ensemble,
)
from raftlog.config_secrets import no_secret, read_secret
from raftlog.discovery.entries import number_of
from raftlog.errors import InvalidOption, ZooKeeperUnavailable

_RECONNECT_PAUSE_MAX_S = 2.0
"""The longest pause before an ensemble that is away is dialled again. No setting: it costs a few
packets, and an ensemble that is back is used soon."""

_ANSWER_BYTES_MAX = 4 << 20
"""No answer is longer: an ensemble keeps 1 MiB in an entry by default, and the names of its entries
are short. No setting: it bounds memory."""

_log = logging.getLogger("raftlog.zookeeper")
_log.addHandler(logging.NullHandler())
_log.setLevel(logging.WARNING)
_log.propagate = False

FAILURES = (
    KazooException,
    KazooTimeoutError,
    OSError,
    struct.error,
    ValueError,
    RuntimeError,
)
"""What a request to an ensemble may raise. The last three are what kazoo makes of answers that no
ensemble gives."""


class Session:
    """A KazooClient, the cluster's path, and the access rules of what it creates."""

    def __init__(
        self, settings: EnsembleSettings, *, option: str, request_timeout_s: float | None = None
    ) -> None:
        """`option` is the setting's name for messages. `request_timeout_s` bounds the wait for each
        answer, by default as long as a session lasts. Contacts no server. Raises
        `InvalidOption`."""
        self._request_timeout_s = request_timeout_s or settings.zookeeper_session_timeout_s
        self._end_s = float("inf")
        self.ensemble: Ensemble = parse_ensemble(settings.zookeeper, option)
        self.acl: list[ACL] = OPEN_ACL_UNSAFE
        auth: list[tuple[str, str]] = []
        credentials = (
            settings.zookeeper_credentials if isinstance(settings, DiscoverySettings) else ""
        )
        if credentials:
            known = _credentials(credentials).get_secret_value()
            user, _, password = known.partition(":")
            auth = [("digest", known)]
            self.acl = [make_digest_acl(user, password, all=True), *READ_ACL_UNSAFE]
        for key in ("zookeeper_ca_file", "zookeeper_cert_file", "zookeeper_key_file"):
            _check_readable(option, key, getattr(settings, key))
        self.client = KazooClient(
            hosts=self.ensemble.hosts,
            timeout=settings.zookeeper_session_timeout_s,
            auth_data=auth,
            connection_retry=KazooRetry(max_tries=-1, max_delay=_RECONNECT_PAUSE_MAX_S),
            logger=_log,
            use_ssl=bool(settings.zookeeper_ca_file),
            ca=settings.zookeeper_ca_file or None,
            certfile=settings.zookeeper_cert_file or None,
            keyfile=settings.zookeeper_key_file or None,
            check_hostname=True,
        )
        _bound_answers(self.client)

    def path(self, *parts: str | int) -> str:
        """The path of an entry."""
        return "/".join([self.ensemble.root, *map(str, parts)])

    def connect(self, timeout_s: float) -> None:
        """Wait for the session. Raises `ZooKeeperUnavailable`."""
        if not self.client.start_async().wait(timeout_s):
            raise self.unavailable(f"no answer within {timeout_s:.4g} s")

    def end_at(self, end_s: float) -> None:
        """Wait for no answer beyond this time, as `time.monotonic` counts: a thousand that are
        slow, each for itself in time, take long."""
        self._end_s = end_s

    def unavailable(self, problem: object) -> ZooKeeperUnavailable:
        """The error for what went wrong, which may be one of kazoo's exceptions."""
        text = problem if isinstance(problem, str) else f"{type(problem).__name__} {problem}"
        return ZooKeeperUnavailable(
            ensemble=self.ensemble.hosts + self.ensemble.root, problem=text.strip()
        )

    def make_folders(self, *names: str) -> None:
        """Create the cluster's path and folders in it, where they are missing."""
        root = self.ensemble.root.split("/")
        above = ["/".join(root[:end]) for end in range(2, len(root) + 1)]
        for path in [*above, *map(self.path, names)]:
            with contextlib.suppress(NodeExistsError):
                self._wait(self.client.create_async(path, b"", acl=self.acl))

    # Each of these raises kazoo's exceptions. Not kazoo's own methods that wait: these wait for
    # ever for an answer that was none.

    def get(self, path: str) -> tuple[bytes | None, ZnodeStat]:
        """What stands there."""
        return self.gotten(self.client.get_async(path))

    def gotten(self, asked: IAsyncResult) -> tuple[bytes | None, ZnodeStat]:
        """The answer to a `get_async` of kazoo's."""
        data, stat = self._wait(asked)
        return data, stat

    def exists(self, path: str, watch: Callable[[object], None]) -> bool:
        """Whether something stands there; `watch` is called once when that changes."""
        return self._wait(self.client.exists_async(path, watch=watch)) is not None

    def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        """Write what does not stand there yet."""
        self._wait(self.client.create_async(path, data, acl=self.acl, ephemeral=ephemeral))

    def set(self, path: str, data: bytes, version: int) -> None:
        """Replace what stands there, if it has this version."""
        self._wait(self.client.set_async(path, data, version=version))

    def delete(self, path: str, version: int = -1) -> None:
        """Remove what stands there, if it has this version; -1: any."""
        self._wait(self.client.delete_async(path, version=version))

    def numbers(self, folder: str, watch: Callable[[object], None] | None = None) -> list[int]:
        """The numbers among the names in a folder, ascending; none if it is not there. `watch` is
        called once when the names change."""
        try:
            names = self._wait(self.client.get_children_async(self.path(folder), watch=watch))
        except NoNodeError:
            return []
        numbers = (number_of(name) for name in names if name)
        return sorted(number for number in numbers if number is not None)

    def _wait(self, asked: IAsyncResult) -> Any:
        left_s = max(0.0, self._end_s - time.monotonic())
        return asked.get(timeout=min(self._request_timeout_s, left_s))

    def close_later(self) -> None:
        """End the session without waiting for that."""
        threading.Thread(target=self.close, name="zookeeper-close", daemon=True).start()

    def close(self) -> None:
        """End the session, which removes what lives only as long as it does.

        Takes up to the session's timeout while the ensemble does not answer.
        """
        with contextlib.suppress(*FAILURES):
            self.client.stop()
        self.client.close()


@contextlib.contextmanager
def connected(settings: EnsembleSettings, *, option: str, timeout_s: float) -> Iterator[Session]:
    """A session for a few requests. What they raise becomes `ZooKeeperUnavailable`.

    Leaving does not wait until the session has ended.
    """
    session = Session(settings, option=option, request_timeout_s=timeout_s)
    try:
        session.connect(timeout_s)
        yield session
    except FAILURES as error:
        raise session.unavailable(error) from error
    finally:
        session.close_later()


def _credentials(reference: str) -> SecretStr:
    """`user:password`, neither of them empty."""
    option, form = "discovery.zookeeper_credentials", CREDENTIALS_FORM
    found = read_secret(option, reference, form)
    user, _, password = found.get_secret_value().partition(":")
    if not (user and password):
        raise no_secret(option, form)
    return found


def _bound_answers(client: KazooClient) -> None:
    """End the connection before an answer is read that no ensemble gives. kazoo reads as many bytes
    as an answer claims to have, 2 GiB at most, and has no way to be told otherwise."""
    connection = client._connection
    read = connection._read

    def read_bounded(length: int, timeout_s: float) -> bytes:
        if length > _ANSWER_BYTES_MAX:
            raise ConnectionDropped(f"an answer of {length} bytes")
        found: bytes = read(length, timeout_s)
        return found

    connection._read = read_bounded


def _check_readable(option: str, key: str, file: str) -> None:
    if file and not os.access(file, os.R_OK):
        raise InvalidOption(
            option=f"{option.partition('.')[0]}.{key}",
            problem="names a file that cannot be read",
            advice="Give a PEM file that this process may read.",
        )
