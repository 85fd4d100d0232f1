"""The replicas of one node, which come into being and end only by applying the controller's log.

That a group was placed elsewhere is what others have reported, and they may lie. So a replica goes
only if its own log has that change committed as well; its leader sends it that far
(`raftlog.multiraft.moves`).

A topic's log and folder are made by a job off the loop. They are removed by another one, once no
write and no read of the group is out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, assert_never

from raftlog.core.membership import Membership
from raftlog.core.messages import RaftMessage
from raftlog.core.quorum import is_quorum
from raftlog.core.recovery import is_recovering
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LastEntry, LogIndex, NodeId
from raftlog.errors import (
    CorruptFile,
    LogFromNewerVersion,
    NodeRemoved,
    PeerProtocolViolation,
    RaftlogError,
    ReplicaQuarantined,
    ResourceShortage,
    TopicRecreated,
)
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.machines.commands import TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import ControllerInfo, CreatedInfo, GroupInfo, KvInfo, label_of
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import (
    Effects,
    GroupDeletedElsewhere,
    GroupKept,
    GroupOpened,
    GroupQuarantined,
    GroupRefilling,
    GroupRemoved,
)
from raftlog.multiraft.groups import GroupFiles, GroupStore, OpenedGroup, Quarantine
from raftlog.multiraft.known_nodes import KnownNodes
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.refill import Refills

_KEPT_TOLD_TICKS = 200
"""How long a replica stays, though its group was placed elsewhere, before people are told. No
setting: it usually learns of the change within a few heartbeats."""


class NodeReplicas(Mapping[GroupId, LocalReplica]):
    """Every replica of node `node` by its group, the controller's among them. One thread's own."""

    def __init__(
        self,
        *,
        node: NodeId,
        configured: Mapping[NodeId, str],
        store: GroupStore,
        disk: NodeDisk,
        effects: Effects,
        added: Callable[[LocalReplica], None],
        ended: Callable[[LocalReplica], None],
        journal_changed: Callable[[], None],
    ) -> None:
        """`configured`: the nodes that this one was started with, by id their addresses. `added`
        is called with each new replica, `ended` with each that is gone from here, before its files
        are. `journal_changed`: the journal forgot a group, in memory."""
        self._node = node
        self.nodes = KnownNodes(configured, store.founders)
        """The cluster's nodes, as far as this one can know."""
        self._store = store
        self._disk = disk
        self._effects = effects
        self._added = added
        self._ended = ended
        self._journal_changed = journal_changed
        self._replicas: dict[GroupId, LocalReplica] = {}
        self.quarantined: dict[GroupId, Quarantine] = {}
        """Groups whose files here are damaged. They have no replica: nothing votes, acknowledges,
        campaigns or serves reads for them, and messages of peers to them are dropped."""
        self._ending: set[GroupId] = set()
        """Groups whose replica is gone, quarantined or for good, while its files are in use."""
        self._opening: set[GroupId] = set()
        self._refills = Refills(
            store=store, disk=disk, journal_changed=journal_changed, made=self._made
        )
        self._kept: dict[GroupId, int] = {}
        """Replicas whose group was placed elsewhere, and whose own log does not say so yet; for how
        many ticks."""
        self._removing: set[GroupId] = set()
        """Groups that were deleted or placed elsewhere, until their files here are removed."""

    def __getitem__(self, group: GroupId) -> LocalReplica:
        return self._replicas[group]

    def get(self, group: GroupId, default: Any = None) -> Any:
        """As `Mapping.get`, which looks up each of many thousand groups in a slower way."""
        return self._replicas.get(group, default)

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._replicas)

    def __len__(self) -> int:
        return len(self._replicas)

    # ------------------------------------------------------------ life

    def start(self, opened: Iterable[OpenedGroup | Quarantine]) -> None:
        """Begin with what `GroupStore.open_all` found."""
        for found in opened:
            if isinstance(found, Quarantine):
                self._quarantine(found)
            else:
                self._add(LocalReplica(*found))
        assert CONTROLLER_GROUP in self._replicas, "every node carries the controller's group"
        self.follow_nodes()

    def close(self) -> None:
        """Answer everybody who waits, close the files."""
        for local in self._replicas.values():
            local.abandon_all(local.not_leader())
        for local in self._replicas.values():
            local.image.close()
        self._store.close(local.replica for local in self._replicas.values())

    def _add(self, local: LocalReplica) -> None:
        self._replicas[local.group] = local
        self._added(local)

    # ------------------------------------------------------------ the controller

    @property
    def of_controller(self) -> LocalReplica:
        """The replica of the controller's group, which every node has."""
        return self._replicas[CONTROLLER_GROUP]

    @property
    def controller(self) -> ControllerMachine:
        """The controller's state, as far as this node has applied it."""
        machine = self.of_controller.machine
        assert isinstance(machine, ControllerMachine)
        return machine

    def known_store(self, node: NodeId) -> str | None:
        """The store bound to the node id, as far as this node can know; None: it knows of none."""
        return self.nodes.store_of(node, self.controller, self.of_controller.replica.applied_index)

    def known_node(self, node: NodeId) -> KnownNode | None:
        """The node as the controller's log here has it last, applied or not."""
        applied = self.of_controller.replica.applied_index
        return self.nodes.latest(node, self.controller, applied)

    def has_registered(self, node: NodeId) -> bool:
        """Has the node registered its store, as far as this one can know?"""
        applied = self.of_controller.replica.applied_index
        return self.nodes.registered_store(node, self.controller, applied) is not None

    def decide(self, nodes: Collection[NodeId]) -> bool:
        """Could these nodes decide in the controller's group by themselves? By its members as far
        as they are known here to be committed; where none are, by all nodes that may vote. What
        fewer say of deletions and removals may be the word of one that lies."""
        raft = self.of_controller.raft
        known = raft.memberships.at(raft.commit_index).membership
        if raft.recovering:
            known = raft.membership  # what it has of the log again may name former voters
        voters = known if known.voters else Membership(tuple(sorted(self.voting_nodes)))
        return is_quorum(voters, nodes)

    @property
    def observes(self) -> bool:
        """Is this node an observer, as far as it knows?"""
        return self._node in self.nodes.observers

    @property
    def voting_nodes(self) -> list[NodeId]:
        """The nodes that may vote somewhere."""
        return [node for node in self.nodes if node not in self.nodes.observers]

    @property
    def heartbeat_peers(self) -> list[NodeId]:
        """The other nodes that must know that this process lives. No node relies on an observer,
        and it relies on none."""
        return [] if self.observes else [each for each in self.voting_nodes if each != self._node]

    @property
    def linked(self) -> dict[NodeId, str]:
        """The nodes that this one may have something to say to, with their addresses. Observers
        speak only to those that vote, to what they pull from and to what pulls from them."""
        nodes = self.nodes
        if not self.observes:
            return dict(nodes)
        near = {*self.voting_nodes, *nodes.parents.get(self._node, ()), self._node}
        near.update(each for each, its in nodes.parents.items() if self._node in its)
        return {node: address for node, address in nodes.items() if node in near}

    def follow_nodes(self) -> bool:
        """Are there other nodes than before? Raises `NodeRemoved` if this one is none of them."""
        if self._node in self.controller.nodes.retired:
            raise NodeRemoved(node=self._node)
        if self._log_has_changed:
            self._read_log()
        replica = self.of_controller.replica
        deciding = {self._node, *replica.raft.membership.all_voters}
        return self.nodes.follow(self.controller, replica.applied_index, deciding)

    def follow_log(self) -> bool:
        """As `follow_nodes`, when only the controller's log may have changed."""
        return self._log_has_changed and self.follow_nodes()

    @property
    def _log_has_changed(self) -> bool:
        """Does the controller's log end elsewhere than where it was read last?"""
        log, read = self.of_controller.replica.log, self.nodes.read_until
        return (log.last_index, log.last_term) != (read.index, read.term)

    def _read_log(self) -> None:
        """Read what is new in the controller's log; all that is not applied, if what was read has
        been applied or truncated."""
        replica, read = self.of_controller.replica, self.nodes.read_until
        log, after = replica.log, read.index
        if not replica.applied_index < after <= log.last_index or log.term_at(after) != read.term:
            self.nodes.forget_log(self.controller.nodes)
            after = replica.applied_index
        last = LastEntry(log.last_term, log.last_index)
        try:
            self.nodes.read_log(replica.logged_commands(after), last)
        except LogFromNewerVersion:
            return  # raised again when that entry is to be applied
        except ResourceShortage:
            self.nodes.forget_log(self.controller.nodes)  # the next look reads all of it again

    def info_of(self, group: GroupId) -> GroupInfo | None:
        """What the group is: by the controller's log as far as it is applied here, else by the
        files of its replica. None: neither says so, or these are damaged."""
        if (created := self.controller.info_of(group)) is not None:
            return created
        if (local := self._replicas.get(group)) is not None:
            return local.info
        quarantine = self.quarantined.get(group)
        return None if quarantine is None else quarantine.info

    def of_topic(self, group: GroupId, incarnation: str) -> LocalReplica | None:
        """The replica of exactly this incarnation; None: not here (yet).

        Raises `TopicRecreated` when the incarnation is known to be gone, `ReplicaQuarantined` when
        its files here are damaged.
        """
        local = self._replicas.get(group)
        if local is not None and isinstance(local.info, TopicInfo):
            if local.info.incarnation != incarnation or local.deleted_elsewhere:
                raise TopicRecreated(topic=local.info.name, wanted=incarnation)
            return local
        if self.controller.is_deleted(group):
            former = self.controller.deleted_topic(incarnation)
            name = former.name if former is not None else f"group {group}"
            raise TopicRecreated(topic=name, wanted=incarnation)
        quarantine = self.quarantined.get(group)
        if quarantine is not None:
            raise self._refusal(quarantine)
        return None

    def of_group(self, group: GroupId) -> LocalReplica | None:
        """The replica of the group; None: not here (yet). Raises `ReplicaQuarantined` when its
        files here are damaged."""
        quarantine = self.quarantined.get(group)
        if quarantine is not None:
            raise self._refusal(quarantine)
        return self._replicas.get(group)

    def _refusal(self, quarantine: Quarantine) -> ReplicaQuarantined:
        info, damage = quarantine.info, quarantine.damage
        return ReplicaQuarantined(
            topic=label_of(info) if info is not None else f"group {quarantine.group}",
            node=self._node,
            file=damage.file,
            position=damage.position,
            problem=damage.problem,
        )

    def told_deleted(self, group: GroupId, peer: NodeId) -> None:
        """The peer says that the group is deleted. The controller's log says when the replica here
        ends; until then it campaigns no more if a majority of the controller's voters say so.

        Raises `PeerProtocolViolation`.
        """
        if group == CONTROLLER_GROUP:
            problem = "the controller's group is never deleted"
            raise PeerProtocolViolation(
                group=group, peer=peer, kind="GroupDeleted", problem=problem
            )
        local = self._replicas.get(group)
        if local is None or local.deleted_elsewhere:
            return
        local.deleted_by.add(peer)
        if self.decide(local.deleted_by):
            local.deleted_elsewhere = True
            self._effects.tell(GroupDeletedElsewhere(group=group, peer=peer))

    def placed_nodes(self, group: GroupId) -> tuple[NodeId, ...]:
        """The nodes that are to vote in the group, and those that did until a change ends, as far
        as this one knows; of the controller's group none before it is placed elsewhere."""
        placed = self.controller.placements.get(group)
        if placed is not None:
            return placed.voters + placed.former
        info = self.info_of(group)
        return () if info is None or isinstance(info, ControllerInfo) else info.voters

    def may_take(self, local: LocalReplica, peer: NodeId) -> bool:
        """May the peer have the replica's entries and files?

        Members of the group may, as the controller places them, and so may observers, which hold
        every group. The group's own log does not count: a member that lies can put an entry into
        the log of one replica. Every node holds the controller's group. False is no proof of a lie:
        the controller's log may yet name the peer, or have just taken it out.
        """
        return peer in self.nodes.observers or self._is_placed(local, peer)

    def takes_part(self, peer: NodeId, message: RaftMessage) -> bool:
        """May the peer send this about a group that is here?

        False for a node that is no member as far as this one knows: the log of the group or of the
        controller may yet say so. Raises `PeerProtocolViolation` for an observer, which never may.
        """
        if peer in self.nodes.observers:
            raise PeerProtocolViolation(
                group=message.group,
                peer=peer,
                kind=type(message).__name__,
                problem="an observer neither votes nor leads",
            )
        group, local = message.group, self._replicas.get(message.group)
        return (
            (local is not None and peer in local.raft.membership.members)
            or group == CONTROLLER_GROUP  # a node that was away cannot know who votes there now
            or peer in self.placed_nodes(group)
        )

    def may_lead(self, group: GroupId) -> Collection[NodeId]:
        """The nodes that may lead the group, as far as this one knows: those that decide by its log
        here, and those on which the controller places it. Where neither says so yet, those that
        vote may lead the controller's group; of any other group none is known, because one that
        does not hold it could forge what it answers."""
        local = self._replicas.get(group)
        deciders = () if local is None else local.raft.membership.all_voters
        found = {*deciders, *self.placed_nodes(group)}.intersection(self.voting_nodes)
        return found if found or group != CONTROLLER_GROUP else self.voting_nodes

    def _is_placed(self, local: LocalReplica, peer: NodeId) -> bool:
        """Does the controller place the group on the peer, or has it until a change ends?"""
        return local.group == CONTROLLER_GROUP or peer in self.placed_nodes(local.group)

    def check_here(self, local: LocalReplica) -> None:
        """Raises `TopicRecreated` if the replica's group is gone, `NotLeader` if its replica is.

        A caller that waited meanwhile may still hold it: it believes that it leads, and nothing
        would ever answer.
        """
        if self._replicas.get(local.group) is not local:
            raise _gone(local)

    # ------------------------------------------------------------ come and go

    def follow_controller(self) -> None:
        """Make and end replicas as the controller's log says, as far as it is applied here.

        A node that starts replays that log: what was deleted and removed here must not come into
        being for a moment, without the votes that it gave.
        """
        if self.of_controller.replica.applied_index < self._store.deletions_index:
            return
        controller = self.controller
        for info in controller.groups():
            if self._is_wanted(info) and not self._is_here(info.group):
                self._open(info)
        for group in [group for group in self._replicas if controller.is_deleted(group)]:
            local = self._replicas.pop(group)
            self._end(local, _gone(local))
        if not self.observes:
            self._leave_groups(controller.placements)
        for group in self.quarantined.keys() - self._ending:
            if controller.is_deleted(group):
                self._remove(group, self.quarantined.pop(group).info, lambda: None)
        self._forget_deleted()

    def _is_wanted(self, info: CreatedInfo) -> bool:
        """Should the group have a replica here? Until a change is reported the former voters may be
        needed to make it, also one that hears of the group and of the change at once."""
        if self.observes:
            return True
        placement = self.controller.placements.get(info.group)
        if placement is None:
            return self._node in info.voters
        return self._node in placement.voters or (
            self._node in placement.former and not placement.is_reached
        )

    def _is_here(self, group: GroupId) -> bool:
        """Is there a replica, or are its files made, in use, removed or damaged?"""
        return (
            group in self._replicas
            or group in self._opening
            or group in self._ending
            or group in self._removing
            or group in self.quarantined
        )

    def _leave_groups(self, groups: Iterable[GroupId]) -> None:
        """Remove the replicas of those that are elsewhere, if their own logs say so too."""
        for group in groups:
            placement = self.controller.placements.get(group)
            if (
                group == CONTROLLER_GROUP
                or group not in self._replicas
                or placement is None
                or self._node in placement.voters
                or not placement.is_reached
            ):
                self._kept.pop(group, None)
            elif _has_left(self._replicas[group], placement.generation):
                self._kept.pop(group, None)
                self._give_up(group)
            else:
                self._kept.setdefault(group, 0)

    def tick(self) -> None:
        """One tick of the clock has passed: replicas may have learnt that their group has left."""
        self._leave_groups(list(self._kept))
        for group in self._kept:
            self._kept[group] += 1
            if self._kept[group] == _KEPT_TOLD_TICKS:
                self._effects.tell(GroupKept(group=group, info=self._replicas[group].info))

    def _give_up(self, group: GroupId) -> None:
        """Remove what is here of a group that is elsewhere. What this node promised in it is kept
        until the group is deleted."""
        local = self._replicas.pop(group)
        self._end(local, local.not_leader())

    def _forget_deleted(self) -> None:
        """The hard state of a group that was here once goes when the group is deleted."""
        journal, is_deleted = self._store.journal, self.controller.is_deleted
        for group in [group for group in journal.groups if is_deleted(group)]:
            if not self._is_here(group):
                journal.forget(group)
                self._journal_changed()

    def _open(self, info: CreatedInfo) -> None:
        self._opening.add(info.group)
        state = self._store.journal.get(info.group)
        if state is not None and is_recovering(state.recovery):
            self._refills.begin(info)  # a crash came while it was given a new folder
        else:
            self._disk.queue_job(
                lambda: self._make(info), lambda found: self._made_or_damaged(info, found)
            )

    def _make(self, info: CreatedInfo) -> GroupFiles | CorruptFile:
        try:
            return self._store.make_group(info)
        except CorruptFile as damage:
            return damage  # the folder of a group that has served was removed

    def _made_or_damaged(self, info: CreatedInfo, found: GroupFiles | CorruptFile) -> None:
        if isinstance(found, CorruptFile):
            self._opening.discard(info.group)
            self._quarantine(Quarantine(info.group, info, found, None))
            self.follow_controller()
        else:
            self._made(info, found)

    def _made(self, info: CreatedInfo, files: GroupFiles) -> None:
        self._opening.discard(info.group)
        opened = self._store.replica(info, files)
        local = LocalReplica(*opened)
        local.raft.note_disk(keeps_up=self._disk.keeps_up)
        self._add(local)
        self._effects.tell(GroupOpened(info=info))
        self.follow_controller()

    # ------------------------------------------------------------ damage

    def quarantine(self, local: LocalReplica, damage: CorruptFile) -> None:
        """The group's log turned out to be damaged where it must be read: end the replica."""
        quarantine = Quarantine(local.group, local.info, damage, local.replica.last_durable)
        self._ending.add(local.group)
        del self._replicas[local.group]
        self._quarantine(quarantine)
        self._end(local, self._refusal(quarantine))

    def _quarantine(self, quarantine: Quarantine) -> None:
        self.quarantined[quarantine.group] = quarantine
        self._effects.tell(
            GroupQuarantined(
                group=quarantine.group, info=quarantine.info, cause=quarantine.damage.cause
            )
        )
        if quarantine.group not in self._ending:
            self._refill_known(quarantine)

    def _refill_known(self, quarantine: Quarantine) -> None:
        """A replica that knows where its log ended is filled again at once: it may be needed to
        elect the leader that it gets the log from."""
        info, lost = quarantine.info, quarantine.lost
        if info is None or isinstance(info, ControllerInfo) or lost is None:
            return
        if not self._store.decides_alone(info.group, info.voters):
            self._refill(info, lost)

    def _refill(self, info: CreatedInfo, lost: LastEntry | None) -> None:
        del self.quarantined[info.group]
        self._opening.add(info.group)
        self._refills.begin(info, lost)
        self._effects.tell(GroupRefilling(group=info.group, info=info))

    def heard_leader(self, peer: NodeId, message: RaftMessage) -> None:
        """A leader speaks to the group's replica here. One that is quarantined is filled again:
        there is a node to get it from. A leader of an earlier term than was promised here learns
        that from the new replica's answer, and another one is elected.

        Raises `PeerProtocolViolation` for an observer.
        """
        if not self.takes_part(peer, message):
            return
        group = message.group
        info = self.controller.info_of(group)
        if group not in self.quarantined or group in self._ending or info is None:
            return
        if not self._store.decides_alone(group, info.voters):  # else no other ever led it
            self._refill(info, self.quarantined[group].lost)

    def fill_observed(self) -> None:
        """Begin to fill what is quarantined again, at an observer: no leader speaks to it."""
        for group in self.quarantined.keys() - self._ending:
            info = self.controller.info_of(group)
            if info is not None:
                self._refill(info, None)  # it has promised nothing that it could forget

    def registered(self, index: LogIndex) -> None:
        """The controller knows this process, by the entry at `index` of its log: the folder forgets
        the boot_ids of earlier ones."""
        self._store.journal.registered(index)
        self._journal_changed()

    def journal_durable(self) -> None:
        """The journal of hard states is durable further than before."""
        self._refills.journal_durable()

    # ------------------------------------------------------------ the end of a replica

    def _end(self, local: LocalReplica, error: RaftlogError) -> None:
        self._ending.add(local.group)
        self._ended(local)
        local.image.close()
        local.abandon_all(error)
        if local.writing:
            self._disk.give_up(local.group)
        else:
            self.let_go(local)

    def let_go(self, local: LocalReplica) -> None:
        """Close the files of a replica that is gone from here, once no write or read of it is out,
        and remove them unless they are kept as damaged.

        Call it when one of these has ended. A deleted group's hard state is forgotten after the
        files; that of one which is elsewhere is kept, marked, from before they go.
        """
        assert local.group not in self._replicas, "only a group that is gone loses its files"
        if local.busy:
            return  # whatever ends last comes here again
        self._ending.discard(local.group)
        if local.group in self.quarantined:
            local.replica.log.abandon()
            self._refill_known(self.quarantined[local.group])
            self.follow_controller()
            return
        if self.controller.is_deleted(local.group):
            self._remove(local.group, local.info, local.replica.log.discard)
        else:
            # Before the files go the journal says durably that they do not count any more.
            self._removing.add(local.group)
            self._refills.give_up(
                local.group,
                local.replica.last_durable,
                lambda: self._remove(local.group, local.info, local.replica.log.discard),
            )

    def _remove(
        self, group: GroupId, info: GroupInfo | None, close_files: Callable[[], None]
    ) -> None:
        self._removing.add(group)
        applied = self.of_controller.replica.applied_index

        def remove() -> None:
            close_files()
            self._store.remove(group, applied)

        def removed(_: None) -> None:
            self._removing.discard(group)
            self._effects.tell(GroupRemoved(group=group, info=info))
            self.follow_controller()  # which forgets it, or makes it again

        self._disk.queue_job(remove, removed)


def _has_left(local: LocalReplica, generation: int) -> bool:
    """Does the replica's log say that placement `generation` is committed, without a vote for this
    node? One that no log has named yet has never had a vote, and holds nothing."""
    raft = local.raft
    committed = raft.memberships.at(raft.commit_index).membership
    if committed.is_joint or committed.generation < generation:
        return not raft.membership.voters
    return local.replica.node not in committed.voters


def _gone(local: LocalReplica) -> RaftlogError:
    """What callers are told who hold a replica that is no longer here."""
    info = local.info
    match info:
        case TopicInfo():
            return TopicRecreated(topic=info.name, wanted=info.incarnation)
        case ControllerInfo() | KvInfo():
            return local.not_leader()
        case _:
            assert_never(info)
