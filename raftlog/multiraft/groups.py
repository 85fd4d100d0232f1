"""The replicas of a data folder: opened, created and removed, with their files.

A group's folder is `groups/<id>/`. Its manifest says which topic it belongs to, so a restarted node
serves its topics before it has caught up with the controller. Only the controller's log decides
when a folder is made or removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from raftlog.core.timer import Random
from raftlog.core.types import (
    CONTROLLER_GROUP,
    GroupId,
    LogIndex,
    Membership,
    NodeId,
    RaftTiming,
)
from raftlog.errors import CorruptFile
from raftlog.machines.commands import TopicInfo
from raftlog.machines.contract import StateMachine
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import Outcome
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.schema import Field, Schema
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.effects import TornTailTruncated
from raftlog.replica import Replica
from raftlog.storage.folder import DataFolder
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.payload_cache import PayloadCache


class GroupStore:
    """Makes replicas from the files of one data folder. Its methods block on disk.

    `make_log` and `remove` may run on another thread, one at a time. They only read the journal of
    hard states, which belongs to the loop's thread.
    """

    def __init__(
        self,
        *,
        folder: DataFolder,
        voters: tuple[NodeId, ...],
        timing: RaftTiming,
        log_limits: LogLimits,
        random: Random,
        tell: Callable[[TornTailTruncated], None],
        log_type: type[GroupLog] = GroupLog,
        replica_type: Callable[..., Replica] = Replica,
    ) -> None:
        """`voters` are the controller's. `log_type` and `replica_type` make every log and replica:
        a simulation gives its own, which are watched."""
        self._folder = folder
        self._node = NodeId(folder.identity.node)
        self._controller_voters = voters
        self._timing = timing
        self._log_limits = log_limits
        self._cache = PayloadCache(log_limits.payload_cache_bytes_max)
        self._random = random
        self._tell = tell
        self._log_type = log_type
        self._replica_type = replica_type
        self.deletions_index = folder.deletions_index()
        """Where the controller's replica must be again before any group is made."""
        self.journal = folder.open_journal()

    def open_all(self) -> list[tuple[Replica, TopicInfo | None]]:
        """The controller's replica, made on the first start, and every group with a folder."""
        found: list[tuple[Replica, TopicInfo | None]] = []
        groups = self._folder.groups()
        if CONTROLLER_GROUP not in groups:
            found.append((self.replica(None, self.make_log(None)), None))
        for group in groups:
            manifest = self._folder.manifest(group)
            topic = None if group == CONTROLLER_GROUP else topic_from_manifest(manifest)
            found.append((self.replica(topic, self._open_log(group)), topic))
        return found

    def make_log(self, topic: TopicInfo | None) -> GroupLog:
        """A new topic's folder and empty log, durable on return. Touches only files."""
        group = CONTROLLER_GROUP if topic is None else topic.group
        self._folder.create_group(group, manifest_of(topic))
        return self._open_log(group)

    def replica(self, topic: TopicInfo | None, log: GroupLog) -> Replica:
        """A replica over the log; None: the controller's."""
        machine: StateMachine[Any, Outcome]
        if topic is None:
            group, machine, voters = CONTROLLER_GROUP, ControllerMachine(), self._controller_voters
        else:
            group, machine, voters = topic.group, TopicMachine(topic), topic.voters
        return self._replica_type(
            node=self._node,
            group=group,
            membership=Membership(voters),
            timing=self._timing,
            log=log,
            journal=self.journal,
            machine=machine,
            random=self._random,
        )

    def remove(self, replica: Replica, controller_index: LogIndex) -> None:
        """Drop the files of a group that the controller's log deleted up to that index.

        Raises `DiskFull` where there is no room even for the note; then it may be called again. The
        hard state goes after them: a crash in between leaves one that nobody asks for.
        """
        replica.log.discard()
        self._folder.note_deletions(controller_index)
        self._folder.remove_group(replica.group)

    def close(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            replica.log.close()
        self.journal.close()
        self._folder.close()

    def _open_log(self, group: GroupId) -> GroupLog:
        """The group's log, made where a crash came between its manifest and its log.

        A group that has a hard state has served: then a missing log is a lost one.
        """
        fs, folder = self._folder.fs, self._folder.group_folder(group)
        if self._log_type.exists(fs, folder):
            found = self._log_type.open(fs, folder, group, self._log_limits, self._cache)
            report = found.report
            if report.torn_bytes:
                self._tell(
                    TornTailTruncated(
                        file=report.torn_file,
                        position=report.torn_position,
                        byte_count=report.torn_bytes,
                    )
                )
            return found
        if self.journal.get(group) is not None:
            raise CorruptFile(
                file=fs.location(folder), position=0, problem="the group's log is missing"
            )
        return self._log_type.create(fs, folder, group, self._log_limits, self._cache)


def manifest_of(topic: TopicInfo | None) -> str:
    """The manifest's text: JSON, `{}` for the controller's group."""
    if topic is None:
        return "{}"
    return json.dumps(
        {
            "name": topic.name,
            "incarnation": topic.incarnation,
            "group": topic.group,
            "voters": list(topic.voters),
            "created_us": topic.created_us,
            "rules": topic.rules,
            "schema": {
                "version": topic.schema.version,
                "fields": [
                    {"id": f.id, "name": f.name, "type": f.type, "nullable": f.nullable}
                    for f in topic.schema.fields
                ],
            },
        },
        sort_keys=True,
    )


def topic_from_manifest(text: str) -> TopicInfo:
    """The topic that `manifest_of` described."""
    table = json.loads(text)
    return TopicInfo(
        name=table["name"],
        incarnation=table["incarnation"],
        group=GroupId(table["group"]),
        schema=Schema(
            version=table["schema"]["version"],
            fields=tuple(Field(**field) for field in table["schema"]["fields"]),
        ),
        voters=tuple(NodeId(voter) for voter in table["voters"]),
        created_us=table["created_us"],
        rules=table.get("rules", RULES_FIRST),
    )
