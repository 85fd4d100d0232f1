"""Who founds a cluster: the *founding record*, and the cluster's id, which is its digest.

A founder is a node in one certain store. So before the first vote each of them knows which stores
may vote, and an empty folder that is started in the place of one founds nothing.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from raftlog.config_hosts import is_address
from raftlog.core.types import NodeId

_LINE = re.compile(r"([1-9][0-9]{0,9})@([^#]{1,262})#([0-9a-f]{32})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Founder:
    """A node that founds a cluster, or did."""

    node: NodeId
    """Its id."""
    address: str
    """Where it listens when the cluster is founded: `host:port`."""
    store_uuid: str
    """Of its data folder, drawn when that is made."""

    @property
    def line(self) -> str:
        """`NODE@HOST:PORT#UUID`, for people to carry to the other founders."""
        return f"{self.node}@{self.address}#{self.store_uuid}"

    @classmethod
    def of_line(cls, line: str) -> Founder | None:
        """The founder whose `line` this is; None: it is none."""
        found = _LINE.fullmatch(line)
        if found is None or not is_address(found[2]):
            return None
        return cls(node=NodeId(int(found[1])), address=found[2], store_uuid=found[3])


def cluster_id_of(founders: Iterable[Founder]) -> str:
    """The id of the cluster of these founders, in whatever order: as long as a UUID, and looks like
    one."""
    lines = "\n".join(sorted(founder.line for founder in founders))
    return str(uuid.UUID(bytes=hashlib.sha256(lines.encode()).digest()[:16]))
