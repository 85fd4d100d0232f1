"""The controller's state machine: the cluster's nodes, topics and groups, from one log.

Replicas are created and removed only by applying this log. Group ids count from 1 and are never
used again. A deleted incarnation is remembered for a while, so that a late resend of its creation
does not bring it back, and a resend of its deletion gets the first answer.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar, assert_never, get_args

from raftlog.core.types import CONTROLLER_GROUP, NO_INDEX, GroupId, LogIndex, NodeId
from raftlog.machines.cluster_nodes import ClusterNodes
from raftlog.machines.commands import (
    AddNode,
    AlterSchema,
    AlterTopic,
    ControllerCommand,
    CreateKv,
    CreateTopic,
    DeleteTopic,
    PlaceGroup,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    Rules,
    SetDuty,
    SetParents,
    SnapshotPoint,
    TopicInfo,
)
from raftlog.machines.digest import StateDigest
from raftlog.machines.evolution import digest_schema, evolved, in_effect, problem_of_schema
from raftlog.machines.group_info import CreatedInfo, KvInfo
from raftlog.machines.limits import (
    DELETED_TOPICS_KEPT,
    NAMES_COMPARED_MAX,
    TEXT_CHARACTERS_MAX,
    ControllerLimits,
)
from raftlog.machines.outcomes import (
    ControllerOutcome,
    DutySet,
    GroupPlaced,
    KvCreated,
    NodeAdded,
    NodeRegistered,
    NodeRetired,
    ParentsSet,
    PlacementReported,
    Refused,
    RulesApplied,
    SnapshotPointApplied,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    refused,
)
from raftlog.machines.placements import Placements
from raftlog.machines.rules import RULES_FIRST, known_rules, next_rules
from raftlog.machines.schema import Field, Schema
from raftlog.machines.settings import (
    ADVICE_ON_SETTINGS,
    TopicSetting,
    changed,
    digest_settings,
    problem_of_setting,
)
from raftlog.machines.state import ControllerState
from raftlog.machines.topic_names import is_topic_name
from raftlog.machines.validity import (
    malformed,
    problem_of_alteration,
    problem_of_kv,
    problem_of_node,
    problem_of_node_command,
    problem_of_placement,
    problem_of_schema_change,
    problem_of_snapshot_point,
    problem_of_topic,
)


class ControllerMachine:
    """The state of group 0. A refused command changes nothing."""

    commands: ClassVar[frozenset[type]] = frozenset(get_args(ControllerCommand))

    def __init__(self, limits: ControllerLimits | None = None) -> None:
        self._limits = limits or ControllerLimits()
        self.rules = RULES_FIRST
        """The version that the next entry is applied under, and that a new topic starts under."""
        self._nodes = ClusterNodes(self._limits.nodes_max)
        self._placements = Placements()
        self._topics: dict[str, TopicInfo] = {}
        self._groups: dict[GroupId, CreatedInfo] = {}
        self._kv: KvInfo | None = None
        self._deleted: dict[str, TopicInfo] = {}
        """The last deleted topics by incarnation, oldest first."""
        self._next_group_id = 1
        self._last_index = LogIndex(0)
        self._last_timestamp_us = 0

    @classmethod
    def restore(
        cls, state: ControllerState, limits: ControllerLimits | None = None
    ) -> ControllerMachine:
        """The machine with this state, after entry `state.last_index`.

        `limits` are as for a new machine. `raftlog.machines.state_validity` has checked the state.
        Raises `LogFromNewerVersion` if this program does not know the state's rules.
        """
        machine = cls(limits)
        machine.rules = known_rules(state.rules, group=CONTROLLER_GROUP, index=state.last_index)
        machine._nodes = ClusterNodes.restore(state.nodes, state.retired, machine._limits.nodes_max)
        machine._placements = Placements.restore(state.placements)
        for topic in state.topics:
            machine._topics[topic.name] = machine._groups[topic.group] = topic
        for kv in state.kvs:
            machine._kv = machine._groups[kv.group] = kv
        machine._deleted = {topic.incarnation: topic for topic in state.deleted}
        machine._next_group_id = state.next_group_id
        machine._last_index = state.last_index
        machine._last_timestamp_us = state.last_timestamp_us
        return machine

    def state(self) -> ControllerState:
        """The whole logical state. O(state)."""
        nodes, retired = self._nodes.state()
        return ControllerState(
            rules=self.rules,
            last_index=self._last_index,
            last_timestamp_us=self._last_timestamp_us,
            next_group_id=GroupId(self._next_group_id),
            nodes=nodes,
            topics=tuple(self._topics.values()),
            deleted=tuple(self._deleted.values()),
            retired=retired,
            placements=self._placements.state(),
            kvs=() if self._kv is None else (self._kv,),
        )

    # ------------------------------------------------------------ commands

    def apply(self, index: LogIndex, command: ControllerCommand) -> ControllerOutcome:
        """Apply the command of entry `index`, which is above every one before it."""
        assert index > self._last_index, f"entry {index} after entry {self._last_index}"
        self._last_index = index
        match command:
            case RegisterNode() | AddNode() | SetParents() | SetDuty() | RetireNode():
                return self._change_nodes(index, command)
            case PlaceGroup():
                return self._place_group(command)
            case ReportPlacement():
                return self._report_placement(command)
            case CreateTopic():
                return self._create_topic(index, command)
            case AlterTopic():
                return self._alter_topic(index, command)
            case AlterSchema():
                return self._alter_schema(command)
            case DeleteTopic():
                return self._delete_topic(command)
            case CreateKv():
                return self._create_kv(command)
            case Rules():
                return self._raise_rules(index, command)
            case SnapshotPoint():
                return self._snapshot_point(command)
            case _:
                assert_never(command)

    def _raise_rules(self, index: LogIndex, command: Rules) -> RulesApplied:
        """Permit a version to all groups. Changes nothing while some node does not know it."""
        if not self.behind_rules(self._nodes, command.version):
            self.rules = next_rules(
                self.rules, command.version, group=CONTROLLER_GROUP, index=index
            )
        return RulesApplied(version=self.rules)

    def _snapshot_point(self, command: SnapshotPoint) -> SnapshotPointApplied | Refused:
        problem = problem_of_snapshot_point(command)
        if problem is not None:
            return malformed("SnapshotPoint", problem)
        return SnapshotPointApplied(keep_from=command.keep_from)

    def _change_nodes(
        self, index: LogIndex, command: RegisterNode | AddNode | SetParents | SetDuty | RetireNode
    ) -> NodeRegistered | NodeAdded | ParentsSet | DutySet | NodeRetired | Refused:
        match command:
            case RegisterNode():
                problem = problem_of_node(command)
            case _:
                problem = problem_of_node_command(command)
        if problem is not None:
            return malformed(type(command).__name__, problem)
        match command:
            case RegisterNode():
                return self._nodes.register(index, command)
            case AddNode():
                return self._nodes.add(command)
            case SetParents():
                return self._nodes.set_parents(command)
            case SetDuty():
                return self._without_room(command) or self._nodes.set_duty(command)
            case _:
                return self._in_use(command.node) or self._nodes.retire(command)

    def _without_room(self, command: SetDuty) -> Refused | None:
        """Why the node cannot leave: the others cannot hold a topic of it, or of another one that
        leaves, which the planner may not have known. The cluster's own groups shrink."""
        known = self._nodes.get(command.node)
        if known is None or command.keeps_leaving:
            return None
        if known.leaving or not command.leaving:
            return None
        others = [each for each in self._usable() - {command.node} if self._nodes[each].store_uuid]
        leaving = {node for node, its in self._nodes.items() if its.leaving} | {command.node}
        for topic in self.topics():
            voters = self.voters_of(topic)
            if len(voters) > len(others) and not leaving.isdisjoint(voters):
                what = f"topic {topic.name!r}"
                return refused("TooFewNodes", what=what, needed=len(voters), found=len(others))
        return None

    def _in_use(self, node: NodeId) -> Refused | None:
        """Why the node cannot be removed; None: nothing is on it, or it is none of the nodes."""
        if node not in self._nodes:
            return None
        what = ""
        if holding := self._groups_on(node):
            what = f"{len(holding)} groups are placed on it"
        else:
            # Where such a group was to go is not known any more: it may be there.
            back = [
                group
                for group, each in self._placements.items()
                if not each.is_reached and each.voters == each.former
            ]
            if back:
                what = f"{len(back)} groups go back to where they were, perhaps from it"
        return refused("NodeInUse", node=node, what=what) if what else None

    def _groups_on(self, node: NodeId) -> list[GroupId]:
        """The groups that are wished on the node, or may still be there."""
        moved = self._placements
        placed = [group for group, each in moved.items() if node in each.voters + each.former]
        made = [group for group, each in self._groups.items() if node in each.voters]
        return placed + [group for group in made if group not in moved]

    def _place_group(self, command: PlaceGroup) -> GroupPlaced | Refused:
        problem = problem_of_placement(command)
        if problem is not None:
            return malformed("PlaceGroup", problem)
        if command.group not in self._groups and command.group != CONTROLLER_GROUP:
            return refused("GroupUnknown", group=command.group)
        return self._placements.place(command, self._usable())

    def _usable(self) -> set[NodeId]:
        """The nodes that take replicas."""
        nodes = self._nodes.items()
        return {node for node, known in nodes if not known.leaving and not known.observer}

    def _report_placement(self, command: ReportPlacement) -> PlacementReported | Refused:
        problem = problem_of_node_command(command)
        if problem is not None:
            return malformed("ReportPlacement", problem)
        return self._placements.report(command)

    def _create_topic(self, index: LogIndex, command: CreateTopic) -> TopicCreated | Refused:
        problem = problem_of_topic(command)
        if problem is not None:
            return malformed("CreateTopic", problem)
        if not is_topic_name(command.name):
            return refused("InvalidTopicName", topic=command.name[:TEXT_CHARACTERS_MAX])
        existing = self._topics.get(command.name)
        if existing is not None:
            if existing.incarnation == command.incarnation:
                return TopicCreated(topic=existing, existed=False)
            if command.if_not_exists:
                return TopicCreated(topic=existing, existed=True)
            return refused("TopicExists", topic=command.name)
        if command.incarnation in self._deleted:
            return refused("TopicRecreated", topic=command.name, wanted=command.incarnation)
        problem = problem_of_schema(command.schema)
        if problem is not None:
            advice = "Give 1 or more columns with distinct names that are not reserved."
            return refused("InvalidOption", option="schema", problem=problem, advice=advice)
        limit = self._limits.fields_max
        if len(command.schema.fields) > limit:
            return refused("TooMany", what="The schema", limit=limit, unit="fields")
        if (wrong := self._refused_settings(command.settings)) is not None:
            return wrong
        limit = self._limits.topics_max
        if len(self._topics) >= limit:
            return refused("TooMany", what="The cluster", limit=limit, unit="topics")
        if (removed := self._removed_voter(command.voters)) is not None:
            return removed
        return TopicCreated(topic=self._new_topic(index, command), existed=False)

    def _removed_voter(self, voters: Iterable[NodeId]) -> Refused | None:
        """Why no group can be made there. A leader that had not applied a removal chose it."""
        for voter in voters:
            if voter in self._nodes.retired:
                return refused("NodeRemoved", node=voter)
        return None

    def _new_topic(self, index: LogIndex, command: CreateTopic) -> TopicInfo:
        settings = changed((), command.settings)
        group = self._new_group(command.timestamp_us)
        topic = TopicInfo(
            name=command.name,
            incarnation=command.incarnation,
            group=group,
            schema=_first_version(command.schema),
            voters=command.voters,
            created_us=self._last_timestamp_us,
            rules=self.rules,
            settings=settings,
            settings_version=index if settings else NO_INDEX,
        )
        self._topics[topic.name] = topic
        self._groups[group] = topic
        return topic

    def _new_group(self, timestamp_us: int) -> GroupId:
        group = GroupId(self._next_group_id)
        assert group not in self._groups, "group ids are never used again"
        self._next_group_id += 1
        self._last_timestamp_us = max(self._last_timestamp_us, timestamp_us)
        return group

    def _create_kv(self, command: CreateKv) -> KvCreated | Refused:
        problem = problem_of_kv(command)
        if problem is not None:
            return malformed("CreateKv", problem)
        if self._kv is not None:
            return KvCreated(kv=self._kv, existed=True)
        if (removed := self._removed_voter(command.voters)) is not None:
            return removed
        group = self._new_group(command.timestamp_us)
        self._kv = KvInfo(
            group=group,
            voters=command.voters,
            created_us=self._last_timestamp_us,
            rules=self.rules,
        )
        self._groups[group] = self._kv
        return KvCreated(kv=self._kv, existed=False)

    def _alter_topic(self, index: LogIndex, command: AlterTopic) -> TopicAltered | Refused:
        problem = problem_of_alteration(command)
        if problem is not None:
            return malformed("AlterTopic", problem)
        topic = self.topic(command.name, command.incarnation)
        if isinstance(topic, Refused):
            return topic
        if (wrong := self._refused_settings(command.settings)) is not None:
            return wrong
        settings = changed(topic.settings, command.settings)
        if settings != topic.settings:
            topic = dataclasses.replace(topic, settings=settings, settings_version=index)
            self._topics[topic.name] = self._groups[topic.group] = topic
        return TopicAltered(topic=topic)

    def _alter_schema(self, command: AlterSchema) -> TopicAltered | Refused:
        problem = problem_of_schema_change(command)
        if problem is not None:
            return malformed("AlterSchema", problem)
        topic = self.topic(command.name, command.incarnation)
        if isinstance(topic, Refused):
            return topic
        known = topic.schema
        if command.version != known.version:
            if command.version < known.version and in_effect(known, command.changes):
                return TopicAltered(topic=topic)
            return refused(
                "SchemaChanged", topic=topic.name, expected=command.version, found=known.version
            )
        schema = evolved(known, command.changes)
        if isinstance(schema, str):
            advice = f"`raftlog topic describe {shlex.quote(topic.name)}` shows the columns."
            return refused("InvalidOption", option="alter_schema", problem=schema, advice=advice)
        limit = self._limits.fields_max
        if len(schema.fields) > limit:
            return refused("TooMany", what="The schema", limit=limit, unit="fields")
        topic = dataclasses.replace(topic, schema=schema)
        self._topics[topic.name] = self._groups[topic.group] = topic
        return TopicAltered(topic=topic)

    def _refused_settings(self, settings: Iterable[TopicSetting]) -> Refused | None:
        """Why no topic can have these; None if one can."""
        for setting in settings:
            problem = problem_of_setting(setting)
            if problem is not None:
                option = setting.name[:TEXT_CHARACTERS_MAX]
                return refused(
                    "InvalidOption", option=option, problem=problem, advice=ADVICE_ON_SETTINGS
                )
        return None

    def _delete_topic(self, command: DeleteTopic) -> TopicDeleted | Refused:
        gone = self._deleted.get(command.incarnation)
        if gone is not None and gone.name == command.name:
            return TopicDeleted(topic=gone)
        topic = self.topic(command.name, command.incarnation)
        if isinstance(topic, Refused):
            return topic
        del self._topics[topic.name]
        del self._groups[topic.group]
        self._placements.forget(topic.group)
        self._deleted[topic.incarnation] = topic
        if len(self._deleted) > DELETED_TOPICS_KEPT:
            del self._deleted[next(iter(self._deleted))]
        return TopicDeleted(topic=topic)

    # ------------------------------------------------------------ queries

    @property
    def nodes(self) -> ClusterNodes:
        """Every node that registered or was added, and not removed; only to be read."""
        return self._nodes

    @property
    def placements(self) -> Placements:
        """The groups that were ever placed elsewhere than where they were made; only to be
        read."""
        return self._placements

    def voters_of(self, info: CreatedInfo) -> tuple[NodeId, ...]:
        """Where the group's replicas should be."""
        placement = self._placements.get(info.group)
        return placement.voters if placement is not None else info.voters

    def as_placed(self, topic: TopicInfo) -> TopicInfo:
        """The topic with the voters that it has, or is to have: not those that it was made with."""
        return dataclasses.replace(topic, voters=self.voters_of(topic))

    def behind_rules(self, nodes: Iterable[NodeId], version: int) -> tuple[NodeId, ...]:
        """Those of `nodes` that did not report that they know `version`, rising. One that was added
        and never started does not count."""
        known = self._nodes
        return tuple(
            node
            for node in sorted(nodes)
            if node not in known or (known[node].store_uuid and known[node].rules < version)
        )

    def known_topic(self, name: str) -> TopicInfo | None:
        """The live topic, or None."""
        return self._topics.get(name)

    def topic(self, name: str, incarnation: str = "") -> TopicInfo | Refused:
        """The live topic; the refusal that becomes `TopicRecreated` where it is of another
        incarnation than the one that is given; or the one that becomes `TopicNotFound` with the
        nearest names, of up to `NAMES_COMPARED_MAX`."""
        found = self._topics.get(name)
        if found is not None:
            if incarnation not in ("", found.incarnation):
                wanted = incarnation[:TEXT_CHARACTERS_MAX]
                return refused("TopicRecreated", topic=name, wanted=wanted, found=found.incarnation)
            return found
        return refused(
            "TopicNotFound", topic=name[:TEXT_CHARACTERS_MAX], nearest=self._nearest(name)
        )

    def topics(self) -> list[TopicInfo]:
        """The live topics by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def groups(self) -> list[CreatedInfo]:
        """Every group that was created and lives, in a fixed order."""
        return [*self.topics(), *(() if self._kv is None else (self._kv,))]

    @property
    def kv(self) -> KvInfo | None:
        """The key-value store; None: there is none yet."""
        return self._kv

    def info_of(self, group: GroupId) -> CreatedInfo | None:
        """What the created group is; None if it does not live in this state."""
        return self._groups.get(group)

    def is_deleted(self, group: GroupId) -> bool:
        """Whether the group existed and was deleted. False for one not created in this state."""
        return 0 < group < self._next_group_id and group not in self._groups

    def deleted_topic(self, incarnation: str) -> TopicInfo | None:
        """The topic that had this incarnation before its deletion; None once it is forgotten."""
        return self._deleted.get(incarnation)

    def progress(self) -> dict[str, int]:
        """See `StateMachine.progress`."""
        return {
            "rules": self.rules,
            "last_index": self._last_index,
            "last_timestamp_us": self._last_timestamp_us,
            "next_group_id": self._next_group_id,
            "removed_nodes": len(self._nodes.retired),
        }

    def fingerprint(self) -> bytes:
        """A digest of the whole state; a refused command leaves it as it was. O(state)."""
        digest = StateDigest()
        digest.number(self.rules)
        digest.number(self._next_group_id)
        digest.number(self._last_timestamp_us)
        self._nodes.digest_into(digest)
        digest.number(len(self._topics))
        for topic in self.topics():
            _digest_topic(digest, topic)
        for topic in self._deleted.values():
            _digest_topic(digest, topic)
        self._placements.digest_into(digest)
        if self._kv is not None:
            for number in (self._kv.group, *self._kv.voters, self._kv.created_us, self._kv.rules):
                digest.number(number)
        return digest.finish()

    def _nearest(self, name: str) -> str:
        """Up to three live names, comma-separated: those that differ in case only, or else those
        that share the name's first or last half. Callers choose both sides, so no comparison may
        take more than linear time."""
        if len(name) > TEXT_CHARACTERS_MAX:
            return ""
        names = list(islice(self._topics, NAMES_COMPARED_MAX))
        same = [each for each in names if each.lower() == name.lower()]
        half = max(1, len(name) // 2)
        begin, end = name[:half], name[-half:]
        close = same or [each for each in names if each.startswith(begin) or each.endswith(end)]
        return ", ".join(sorted(close)[:3])


def _first_version(schema: Schema) -> Schema:
    """That of a new topic, which has its own history, whatever topic the schema was copied from.

    Its columns have ids in their order, so that each version of the schema follows from a later
    one.
    """
    fields = tuple(
        Field(id=number, name=field.name, type=field.type, nullable=field.nullable)
        for number, field in enumerate(schema.fields, 1)
    )
    return Schema(version=1, fields=fields)


def _digest_topic(digest: StateDigest, topic: TopicInfo) -> None:
    digest.text(topic.name)
    digest.text(topic.incarnation)
    digest.number(topic.group)
    digest.number(topic.created_us)
    digest.number(topic.rules)
    digest.number(len(topic.voters))
    for voter in topic.voters:
        digest.number(voter)
    digest_schema(digest, topic.schema)
    digest_settings(digest, topic.settings_version, topic.settings)
