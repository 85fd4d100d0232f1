"""The replicas of one node, which come into being and end only by applying the controller's log.

A topic's log and folder are made by a job off the loop. They are removed by another one, once no
write and no read of the group is out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId
from raftlog.errors import NotLeader, TopicRecreated
from raftlog.machines.commands import RegisterNode, TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import Effects, GroupOpened, GroupRemoved
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.replica import Replica
from raftlog.storage.log import GroupLog


class NodeReplicas(Mapping[GroupId, LocalReplica]):
    """Every replica of node `node` by its group, the controller's among them. One thread's own."""

    def __init__(
        self,
        *,
        node: NodeId,
        node_count: int,
        store: GroupStore,
        disk: NodeDisk,
        effects: Effects,
        added: Callable[[LocalReplica], None],
        ended: Callable[[LocalReplica], None],
        journal_changed: Callable[[], None],
    ) -> None:
        """`added` is told of each replica that came into being, `ended` of each that is gone from
        here, before its files are. `journal_changed`: the journal forgot a group, in memory."""
        self._node = node
        self._node_count = node_count
        self._store = store
        self._disk = disk
        self._effects = effects
        self._added = added
        self._ended = ended
        self._journal_changed = journal_changed
        self._replicas: dict[GroupId, LocalReplica] = {}
        self._opening: set[GroupId] = set()
        self._logged_nodes = ControllerMachine()
        """What the controller's log here says of nodes, committed or not."""
        self._logged_until = LogIndex(0)
        """Where that log ended when this process started."""

    def __getitem__(self, group: GroupId) -> LocalReplica:
        return self._replicas[group]

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._replicas)

    def __len__(self) -> int:
        return len(self._replicas)

    # ------------------------------------------------------------ life

    def start(self, opened: Iterable[tuple[Replica, TopicInfo | None]]) -> None:
        """Begin with what `GroupStore.open_all` found."""
        for replica, topic in opened:
            self._add(LocalReplica(replica, topic))
        assert CONTROLLER_GROUP in self._replicas, "every node carries the controller's group"
        self._read_logged_nodes()

    def close(self) -> None:
        """Answer everybody who waits, close the files."""
        for local in self._replicas.values():
            local.abandon_all(NotLeader(group=local.group))
        self._store.close(local.replica for local in self._replicas.values())

    def _add(self, local: LocalReplica) -> None:
        self._replicas[local.group] = local
        self._added(local)

    def _read_logged_nodes(self) -> None:
        controller = self.of_controller.replica
        self._logged_until = controller.log.last_index
        for index, command in controller.logged_commands():
            if isinstance(command, RegisterNode):
                self._logged_nodes.apply(index, command)
                if len(self._logged_nodes.nodes) == self._node_count:
                    break

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
        """The store bound to the node id, as far as this node can know; None: it knows of none.

        A node that starts has the controller's log and does not know yet what of it is committed.
        It takes an election to know, and a folder that was wiped must not vote in it. So what is in
        the log counts until all of it is applied (or was truncated, and nothing of it is bound).
        """
        known = self.controller.nodes.get(node)
        if known is None and self.of_controller.replica.applied_index < self._logged_until:
            known = self._logged_nodes.nodes.get(node)
        return known.store_uuid if known is not None else None

    def of_topic(self, group: GroupId, incarnation: str) -> LocalReplica | None:
        """The replica of exactly this incarnation; None: not here (yet).

        Raises `TopicRecreated` when the incarnation is known to be gone.
        """
        local = self._replicas.get(group)
        if local is not None and local.topic is not None:
            if local.topic.incarnation != incarnation or local.deleted_elsewhere:
                raise TopicRecreated(topic=local.topic.name, wanted=incarnation)
            return local
        if self.controller.is_deleted(group):
            former = self.controller.deleted_topic(incarnation)
            name = former.name if former is not None else f"group {group}"
            raise TopicRecreated(topic=name, wanted=incarnation)
        return None

    def check_here(self, local: LocalReplica) -> None:
        """Raises `TopicRecreated` if the replica's group is gone.

        A caller that waited meanwhile may still hold it: it believes that it leads, and nothing
        would ever answer.
        """
        if self._replicas.get(local.group) is not local:
            assert local.topic is not None, "the controller's group is never deleted"
            raise TopicRecreated(topic=local.topic.name, wanted=local.topic.incarnation)

    # ------------------------------------------------------------ come and go

    def follow_controller(self) -> None:
        """Make and end replicas as the controller's log says, as far as it is applied here.

        A node that starts replays that log: what was deleted and removed here must not come into
        being for a moment, without the votes that it gave.
        """
        if self.of_controller.replica.applied_index < self._store.deletions_index:
            return
        controller = self.controller
        for topic in controller.topics():
            here = topic.group in self._replicas or topic.group in self._opening
            if self._node in topic.voters and not here:
                self._open(topic)
        for group in [group for group in self._replicas if controller.is_deleted(group)]:
            self._end(self._replicas.pop(group))

    def _open(self, topic: TopicInfo) -> None:
        self._opening.add(topic.group)

        def made(log: GroupLog) -> None:
            self._opening.discard(topic.group)
            local = LocalReplica(self._store.replica(topic, log), topic)
            local.raft.note_disk(keeps_up=self._disk.keeps_up)
            self._add(local)
            self._effects.tell(GroupOpened(topic=topic))
            self.follow_controller()

        self._disk.queue_job(lambda: self._store.make_log(topic), made)

    def _end(self, local: LocalReplica) -> None:
        topic = local.topic
        assert topic is not None, "the controller's group is never deleted"
        self._ended(local)
        local.abandon_all(TopicRecreated(topic=topic.name, wanted=topic.incarnation))
        if local.writing:
            self._disk.give_up(local.group)
        else:
            self.remove_files(local)

    def remove_files(self, local: LocalReplica) -> None:
        """Drop the files of a group that is gone from here, once no write or read of it is out.

        Call it when one of these has ended. The group's hard state is forgotten after the files: a
        crash in between leaves one that nobody asks for.
        """
        topic = local.topic
        assert topic is not None, "the controller's group is never removed"
        assert local.group not in self._replicas, "only a group that is gone loses its files"
        if local.writing or local.reads_out:
            return  # whichever ends last comes here again
        applied = self.of_controller.replica.applied_index

        def removed(_: None) -> None:
            self._store.journal.forget(local.group)
            self._journal_changed()
            self._effects.tell(GroupRemoved(topic=topic))

        self._disk.queue_job(lambda: self._store.remove(local.replica, applied), removed)
