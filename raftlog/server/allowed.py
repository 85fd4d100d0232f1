"""What each call needs of its caller, and what of an answer a caller may see.

Every call of the table has an entry in `NEEDS`. It is judged by the request alone, before the call
costs anything. What a caller may not even know of is told apart from what does not exist by
nothing: names of topics are in no refusal that the caller did not give the name to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from raftlog.auth import grant_keys, quota_keys
from raftlog.auth.principals import Caller, node_caller
from raftlog.auth.quotas import EVERYBODY
from raftlog.auth.rights import (
    ANYTHING,
    EVERYTHING,
    Resource,
    Right,
    keys_under,
    reader_group_named,
    topic_named,
    writer_named,
)
from raftlog.core.types import GroupId
from raftlog.errors import (
    GroupUnknown,
    NotLeader,
    RaftlogError,
    StoredValueInvalid,
    TopicNotFound,
)
from raftlog.machines.commands import RegisterNode, ReportPlacement, TopicInfo
from raftlog.machines.group_info import ControllerInfo, GroupInfo
from raftlog.machines.kv import SYSTEM_PREFIX
from raftlog.machines.kv_commands import KeyChange, KeyValue
from raftlog.multiraft.replicas import NodeReplicas
from raftlog.server.rights import Rights, refusal
from raftlog.wire import calls, reader_positions
from raftlog.wire.kv_calls import OpenKv, ReadKeys
from raftlog.wire.placing_calls import PlacementsReply
from raftlog.wire.reserved_keys import QUERIES_PREFIX, WRITTEN_PREFIX, QueryNote

_PREFIXES_OF_NODES = frozenset(
    {grant_keys.KEY_PREFIX, quota_keys.KEY_PREFIX, reader_positions.KEY_PREFIX}
)
"""The keys that nodes read of one another's store."""


class Need(NamedTuple):
    """A right that a call needs."""

    right: Right | None
    """None: any."""
    on: Resource
    instead: tuple[Right, Resource] | None = None
    """Another right that does as well."""
    guessed: GroupId | None = None
    """The group by whose number alone the caller names the topic. A caller that may not
    know of the topic does not get its name."""


Needs = Callable[["Allowed", Any], Sequence[Need]]


class Allowed:
    """Judges the calls of one node."""

    def __init__(
        self,
        rights: Rights,
        replicas: NodeReplicas,
        not_here: Callable[[GroupId], NotLeader],
    ) -> None:
        """`not_here` makes the error of a call for a group that has no replica here."""
        self.rights = rights
        self._replicas = replicas
        self._not_here = not_here

    def check(self, who: Caller | None, call: str, request: object) -> None:
        """Raises `Forbidden`, `RightsUnknown`, `GroupUnknown` for a group of which the caller must
        not know whether there is one, and `NotLeader` for one that this node does not know: there
        is nothing to have a right on, and the caller may have one on its topic."""
        if not self.rights.asked:
            return
        if who is not None and who.is_node:
            if not _is_for_nodes(who, request):
                raise refusal(who, Right.CLUSTER, EVERYTHING)
            return
        try:
            needs = NEEDS[call](self, request)
        except NotLeader as unknown:
            if self.rights.allow(who, None, ANYTHING):
                raise
            raise GroupUnknown(group=unknown.group) from None
        for need in needs:
            if self.rights.allow(who, need.right, need.on):
                continue
            if need.instead is not None and self.rights.allow(who, *need.instead):
                continue
            if need.guessed is not None and not self.rights.allow(who, None, need.on):
                raise GroupUnknown(group=need.guessed)
            raise refusal(who, need.right or (Right.READ if need.on != ANYTHING else None), need.on)

    def shown(self, who: Caller | None, reply: Any) -> Any:
        """The answer without what the caller must not know of. Raises `RightsUnknown`."""
        if not self.rights.asked:
            return reply
        match reply:
            case calls.TopicsReply():
                seen = [each for each in reply.topics if self._sees(who, each.name)]
                return calls.TopicsReply(topics=tuple(seen))
            case PlacementsReply():
                groups = [each for each in reply.groups if self.sees_group(who, each.group)]
                return replace(reply, groups=tuple(groups))
            case _:
                return reply

    def told(self, who: Caller | None, error: RaftlogError) -> RaftlogError:
        """The error without names of topics that the caller must not know of."""
        if isinstance(error, TopicNotFound) and error.nearest:
            names = [name for name in error.nearest.split(", ") if self._sees(who, name)]
            return TopicNotFound(topic=error.topic, nearest=", ".join(names))
        if (
            isinstance(error, NotLeader)
            and error.what
            and self.rights.asked
            and not self.sees_group(who, GroupId(error.group))
        ):
            return NotLeader(group=error.group, node=error.node)
        return error

    def require_any(self, who: Caller | None) -> None:
        """Raises `Forbidden` if the caller has no right on anything, `RightsUnknown`."""
        if not self.rights.allow(who, None, ANYTHING):
            raise refusal(who, None, ANYTHING)

    def may_all(self, who: Caller | None) -> bool:
        """Whether the caller has every right. Raises `RightsUnknown`."""
        return self.rights.allow(who, Right.ADMIN, EVERYTHING)

    def share_of(self, who: Caller | None) -> str:
        """The principal whose share of a common room the caller takes; "": it has every right, and
        no share. Raises `RightsUnknown`."""
        return "" if who is None or self.may_all(who) else who.principal

    # ------------------------------------------------------------ what is meant

    def of_topic(self, right: Right | None, group: GroupId, incarnation: str) -> list[Need]:
        """What a call of a topic needs that names its incarnation, also after its deletion."""
        info = self._info_of(group, incarnation)
        if not isinstance(info, TopicInfo) or (info.group, info.incarnation) != (
            group,
            incarnation,
        ):
            raise GroupUnknown(group=group)  # the caller has guessed the group
        return [Need(right, topic_named(info.name))]

    def of_group(self, right: Right | None, group: GroupId) -> list[Need]:
        """What a call of any group needs that names no incarnation."""
        info = self._info_of(group)
        if isinstance(info, TopicInfo):
            return [Need(right, topic_named(info.name), guessed=group)]
        if right is None:
            return []
        needed = Right.CLUSTER if isinstance(info, ControllerInfo) else Right.ADMIN
        return [Need(needed, EVERYTHING)]

    def _info_of(self, group: GroupId, incarnation: str = "") -> GroupInfo:
        """What the group is. The controller's log may name it as soon as this node has caught up:
        until then the call is not judged, and the caller tries again."""
        controller = self._replicas.controller
        info = self._replicas.info_of(group) or controller.deleted_topic(incarnation)
        if info is not None:
            return info
        if controller.is_deleted(group):
            raise GroupUnknown(group=group)
        raise self._not_here(group)

    def of_key(self, right: Right, key: str, value: bytes = b"") -> list[Need]:
        """What it needs to read or write a key, which holds the value or is to hold it."""
        if key.startswith(grant_keys.KEY_PREFIX):
            try:
                return [Need(Right.ADMIN, grant_keys.names_of(key)[1])]
            except StoredValueInvalid:
                return [Need(Right.ADMIN, EVERYTHING)]
        if key.startswith(quota_keys.KEY_PREFIX):
            return [Need(Right.ADMIN, EVERYTHING)]
        if key.startswith(reader_positions.KEY_PREFIX):
            group, topic = reader_positions.names_of(key)
            needs = [Need(Right.READ, topic_named(topic))]
            if right is Right.WRITE:  # retention may delete what the group has not read then
                needs.append(Need(Right.WRITE, reader_group_named(group)))
            return needs
        if key.startswith(WRITTEN_PREFIX):
            return [Need(Right.WRITE, topic_named(key.rpartition("/")[2]))]
        if key.startswith(QUERIES_PREFIX):
            noted = self._noted_topic(key, value)
            return [Need(Right.WRITE if right is Right.WRITE else None, noted)]
        return [Need(right, keys_under(key))]

    def _noted_topic(self, key: str, value: bytes) -> Resource:
        """The topic that a note of a query is about: it says so twice."""
        try:
            name = QueryNote.decode(key, value).topic
        except StoredValueInvalid:
            return EVERYTHING
        found = self._replicas.controller.known_topic(name)
        incarnation = key.removeprefix(QUERIES_PREFIX).partition("/")[0]
        if found is None or found.incarnation != incarnation:
            return EVERYTHING
        return topic_named(name)

    # ------------------------------------------------------------ what is seen

    def _sees(self, who: Caller | None, topic: str) -> bool:
        return self.rights.allow(who, None, topic_named(topic))

    def sees_group(self, who: Caller | None, group: GroupId) -> bool:
        """Groups that are no topics are no secret; of one that is unknown this is not known.
        Raises `RightsUnknown`."""
        info = self._replicas.info_of(group)
        if info is None:
            return self.rights.allow(who, Right.CLUSTER, EVERYTHING)
        return not isinstance(info, TopicInfo) or self._sees(who, info.name)

    def sees_key(self, who: Caller | None, found: KeyValue | KeyChange) -> bool:
        """Whether the caller may read it: also what is granted to itself, and its own quota.
        Raises `RightsUnknown`."""
        if not self.rights.asked:
            return True
        if who is not None and _is_for(found.key, who.names):
            return True
        needs = self.of_key(Right.READ, found.key, found.value)
        return all(self.rights.allow(who, need.right, need.on) for need in needs)

    def sees_folders(self, who: Caller | None) -> bool:
        """Whether the caller may see a node's folders. Raises `RightsUnknown`."""
        return self.rights.allow(who, Right.CLUSTER, EVERYTHING)


def _is_for(key: str, names: frozenset[str]) -> bool:
    """Whether a key gives rights to one of these names, or is the quota of one or of everybody."""
    try:
        if key.startswith(grant_keys.KEY_PREFIX):
            return grant_keys.names_of(key)[0] in names
        if key.startswith(quota_keys.KEY_PREFIX):
            return quota_keys.name_of(key) in names | {EVERYBODY}
    except StoredValueInvalid:
        pass  # the key of none, which only an admin may see
    return False


def _is_for_nodes(who: Caller, request: object) -> bool:
    """Whether a node needs it of another: to register itself, to report what has been placed, and
    to read grants, quotas and positions."""
    match request:
        case RegisterNode():
            return who == node_caller(request.node)
        case ReportPlacement():
            return True
        case OpenKv():
            return not request.create
        case ReadKeys():
            return request.prefix in _PREFIXES_OF_NODES
        case _:
            return False


# ---------------------------------------------------------------- the table


def _nothing(_: Allowed, __: object) -> Sequence[Need]:
    """Every caller who is known may ask, and sees of the answer what it may see."""
    return ()


def _something(_: Allowed, __: object) -> Sequence[Need]:
    """Any right on anything: a caller without one must not fill the store."""
    return (Need(None, ANYTHING),)


def _open_kv(allowed: Allowed, request: OpenKv) -> Sequence[Need]:
    return _something(allowed, request) if request.create else ()


def _cluster(_: Allowed, __: object) -> Sequence[Need]:
    return (Need(Right.CLUSTER, EVERYTHING),)


def _named(right: Right | None) -> Needs:
    """A right on the topic that is named."""
    return lambda _, request: [Need(right, topic_named(request.name))]


def _topic(right: Right | None) -> Needs:
    """A right on the topic whose group and incarnation are named."""
    return lambda allowed, request: allowed.of_topic(right, request.group, request.incarnation)


def _commit_epoch(allowed: Allowed, request: calls.CommitEpochCall) -> Sequence[Need]:
    """Records that take the place of all others delete these."""
    rights = (Right.WRITE, Right.DELETE) if request.overwrite else (Right.WRITE,)
    return [
        need
        for right in rights
        for need in allowed.of_topic(right, request.group, request.incarnation)
    ]


def _group(right: Right | None) -> Needs:
    return lambda allowed, request: allowed.of_group(right, request.group)


def _remove_writer(allowed: Allowed, request: calls.RemoveWriterCall) -> Sequence[Need]:
    on_topic = allowed.of_topic(Right.ADMIN, request.group, request.incarnation)
    instead = (Right.DELETE, writer_named(request.writer))
    return [need._replace(instead=instead) for need in on_topic]


def _write_key(allowed: Allowed, request: Any) -> Sequence[Need]:
    return allowed.of_key(Right.WRITE, request.key, getattr(request, "value", b""))


def _read_keys(allowed: Allowed, request: ReadKeys) -> Sequence[Need]:
    """One key, or those under a prefix. Of raftlog's own each is judged when it is found."""
    one = not request.prefix and request.end == f"{request.start}\0"
    return _under(request.start if one else request.prefix)


def _under(prefix: str) -> Sequence[Need]:
    return () if prefix.startswith(SYSTEM_PREFIX) else (Need(Right.READ, keys_under(prefix)),)


NEEDS: dict[str, Needs] = {
    calls.DESCRIBE_CLUSTER.name: _nothing,
    calls.REGISTER_NODE.name: _cluster,
    calls.CREATE_TOPIC.name: _nothing,  # `Unchanged.created` must know whether it exists
    calls.ADD_NODE.name: _cluster,
    calls.SET_PARENTS.name: _cluster,
    calls.SET_DUTY.name: _cluster,
    calls.RETIRE_NODE.name: _cluster,
    calls.PLACE_GROUP.name: _cluster,
    calls.REPORT_PLACEMENT.name: _cluster,
    calls.DESCRIBE_PLACEMENTS.name: _nothing,
    calls.TRANSFER_LEADERSHIP.name: _cluster,
    calls.ALTER_TOPIC.name: _named(Right.ALTER),
    calls.ALTER_SCHEMA.name: _named(Right.ALTER),
    calls.DELETE_TOPIC.name: _named(Right.DELETE),
    calls.DESCRIBE_TOPIC.name: _named(None),
    calls.LIST_TOPICS.name: _nothing,
    calls.APPEND.name: _topic(Right.WRITE),
    calls.STAGE.name: _topic(Right.WRITE),
    calls.COMMIT_EPOCH.name: _commit_epoch,
    calls.ABORT_EPOCH.name: _topic(Right.WRITE),
    calls.READ_HIGH_WATER_MARK.name: _topic(None),
    calls.READ.name: _topic(Right.READ),
    calls.READ_SIZES.name: _topic(Right.READ),
    calls.FIND_OFFSET.name: _topic(Right.READ),
    calls.TRIM.name: _topic(Right.DELETE),
    calls.WATCH_GROUPS.name: _nothing,
    calls.SCRUB.name: _cluster,
    calls.LIST_WRITERS.name: _topic(None),
    calls.REMOVE_WRITER.name: _remove_writer,
    calls.SET_WRITER_OWNER.name: _topic(Right.ADMIN),
    calls.OPEN_KV.name: _open_kv,
    calls.OPEN_SESSION.name: _something,
    calls.PUT_KEY.name: _write_key,
    calls.DELETE_KEY.name: _write_key,
    calls.READ_KEYS.name: _read_keys,
    calls.WATCH_KEYS.name: lambda _, request: _under(request.prefix),
    calls.GET_LAST_APPLIED.name: _group(None),
    calls.GET_SERVERS.name: _group(None),
    calls.GET_ENTRIES.name: _group(Right.ADMIN),  # also what was aborted or trimmed
    calls.GET_STATE.name: _group(Right.ADMIN),  # also the ids of producers
    calls.WATCH_EVENTS.name: _group(None),
}
