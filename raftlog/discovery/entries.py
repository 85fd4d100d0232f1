"""What stands in ZooKeeper, below the cluster's path, as JSON. All of it is read as hostile input.

    cluster         which cluster this is, and who founded it: written once, never changed
    nodes/3         node 3, for as long as its session lives
    leaders/7       who leads group 7, and since which term; 0 is the controller
    founding/3      node 3 is about to found a cluster, for as long as its session lives

Paths are made of numbers only: what was read never becomes part of a path.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from raftlog.config_hosts import is_address
from raftlog.core.types import NodeId
from raftlog.founders import Founder, cluster_id_of

ENTRY_BYTES_MAX = 16 * 1024
"""A longer entry is none of ours: one with 100 voters has half of it."""
VOTERS_MAX = 100
ENTRIES_MAX = 1_000
"""So many nodes are read, and so many leaders. What a client does not read, it asks the nodes."""
_TERM_MAX = 2**63 - 1

CLUSTER = "cluster"
NODES = "nodes"
LEADERS = "leaders"
FOUNDING = "founding"


def _is_address(text: str) -> str:
    if not is_address(text):
        raise ValueError("this is no host and port")
    return text


Identifier = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,64}$")]
"""A cluster's id, a store's uuid."""
Address = Annotated[
    str,
    StringConstraints(max_length=262),
    AfterValidator(_is_address),
]
"""`host:port`, and nothing else that a dialler could understand, such as `unix:socket`."""
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)
NodeNumber = Annotated[int, Field(ge=1, lt=2**31)]


class Entry(BaseModel):
    """Fields that a later version adds are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)

    def encode(self) -> bytes:
        """The entry as it is written."""
        return self.model_dump_json().encode()


EntryType = TypeVar("EntryType", bound=Entry)


class NumberedEntry(Entry):
    """An entry whose name in its folder is a number, which it repeats."""

    cluster_id: Identifier

    @property
    @abstractmethod
    def number(self) -> int:
        """The name that the entry must have."""


class NodeEntry(NumberedEntry):
    """A node that serves."""

    node: NodeNumber
    store_uuid: Identifier
    addresses: Annotated[tuple[Address, ...], Field(min_length=1, max_length=4)]

    @property
    def number(self) -> int:
        return self.node


class LeaderEntry(NumberedEntry):
    """Who leads a group."""

    group: Annotated[int, Field(ge=0, lt=2**63)]
    topic: Annotated[str, StringConstraints(max_length=255)]
    """For people. The controller's is ""."""
    term: Annotated[int, Field(ge=1, le=_TERM_MAX)]
    node: NodeNumber
    address: Address

    @property
    def number(self) -> int:
        return self.group


class FounderEntry(Entry):
    """A node that is to be a voter of a new cluster, in a store that is made already."""

    node: NodeNumber
    address: Address
    store_uuid: Identifier

    @classmethod
    def of(cls, founder: Founder) -> FounderEntry:
        return cls(node=founder.node, address=founder.address, store_uuid=founder.store_uuid)

    @property
    def founder(self) -> Founder:
        return Founder(node=NodeId(self.node), address=self.address, store_uuid=self.store_uuid)


class ClusterEntry(Entry):
    """The cluster at this path: its founding record."""

    cluster_id: Identifier
    founders: Annotated[tuple[FounderEntry, ...], Field(min_length=1, max_length=VOTERS_MAX)]

    @classmethod
    def founded_by(cls, founders: Sequence[Founder]) -> ClusterEntry:
        """That of a new cluster of these nodes."""
        entries = tuple(map(FounderEntry.of, founders))
        return cls(cluster_id=cluster_id_of(founders), founders=entries)

    @property
    def founding(self) -> tuple[Founder, ...]:
        """Who founded the cluster."""
        return tuple(entry.founder for entry in self.founders)


class Unusable(ValueError):
    """An entry that no node of ours writes. The text says what is wrong, without its content."""


def parse(kind: type[EntryType], data: bytes | None) -> EntryType:
    """The entry in these bytes; ZooKeeper's may have none. Raises `Unusable`."""
    if not data:
        raise Unusable("it is empty")
    if len(data) > ENTRY_BYTES_MAX:
        raise Unusable(f"it has {len(data)} bytes")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        raise Unusable(f"{where or 'it'}: {first['type']}") from None


def can_be_announced(address: str) -> bool:
    """Whether the address is one that an entry may hold."""
    try:
        _ADDRESS.validate_python(address)
    except ValidationError:
        return False
    return True


def number_of(name: str) -> int | None:
    """The number that the name of an entry is; None: it is another name."""
    plain = name.isascii() and name.isdecimal() and len(name) <= 19
    return int(name) if plain and str(int(name)) == name else None
