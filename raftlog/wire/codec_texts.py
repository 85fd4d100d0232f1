"""Private to `raftlog.wire`: how long each text and list may be that comes in a call, a reply, a
refusal or a message between nodes. It is checked when the message is decoded, before anything is
done with the text (searched, compared, logged, or repeated in an error) or with the list's values.

Commands of the log and states of machines are not checked here. Every replica must apply the same
entry in the same way, so a machine refuses what is too long (`raftlog.machines.validity`). It keeps
no text that is longer than the field of a reply that carries it: clients could not read the reply.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from raftlog.core.types import BOOT_IDS_MAX
from raftlog.machines.kv_commands import SESSION_CHARACTERS
from raftlog.machines.limits import (
    CHANGES_AT_ONCE_MAX,
    FORMER_FIELDS_MAX,
    KEY_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    PARENTS_MAX,
    REPLICAS_MAX,
    STORE_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    ControllerLimits,
    TopicLimits,
)
from raftlog.machines.settings import SETTINGS
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.framing import Unreadable
from raftlog.wire.kv_calls import KEYS_PER_PAGE_MAX
from raftlog.wire.mapping import LIST_VALUES_MAX
from raftlog.wire.traced import CARRIED_MAX

ERROR_BYTES_MAX = 6 * 1024
"""An encoded error stays below this: grpc refuses metadata of 8 KiB and more."""

_ID_MAX = 64
"""Ids that a node draws at random, and the stamp of its format."""
_ADDRESS_MAX = 262
"""A host of 253 characters, brackets, and a port."""
_TYPE_MAX = 256 * 1024
"""The text of a struct of a thousand fields is a third of it."""
_PROSE_MAX = 64 * 1024
"""An error's text, or a path, for people."""

_FIELDS = (
    # Names, and words of which there are a few.
    (NAME_CHARACTERS_MAX, "action attempt code history incarnation kind name operator producer"),
    (NAME_CHARACTERS_MAX, "refused role scrub state state_hash topic version"),
    # What Spark or a user calls a writer and its runs, principals, and what else a machine takes.
    (TEXT_CHARACTERS_MAX, "after held_for names owner owners plan query_id rack racks run"),
    (TEXT_CHARACTERS_MAX, "share stream stream_run to writer Field.name FormerField.name"),
    (
        TEXT_CHARACTERS_MAX,
        "ColumnChange.name ColumnReference.name Prefix.prefix caller caller_groups former",
    ),
    (KEY_CHARACTERS_MAX, "key prefix"),
    # A range of keys may end at the next text behind the longest key.
    (KEY_CHARACTERS_MAX + 1, "start end"),
    (SESSION_CHARACTERS, "session ends"),
    (CARRIED_MAX, "carried"),
    (STORE_CHARACTERS_MAX, "store_uuid"),
    (_ID_MAX, "boot_id earlier_boot_ids cluster_id format"),
    (_ADDRESS_MAX, "address leader_address"),
    (_TYPE_MAX, "type"),
    (ERROR_BYTES_MAX, "ErrorValue.text"),
    (_PROSE_MAX, "damage_latest disk_full folder problem"),
)
"""By the field's name, or for one kind of message alone by that and the field's name."""
_LIMITS = {field: most for most, fields in _FIELDS for field in fields.split()}

_FIELDS_MAX = ControllerLimits().fields_max
_LISTS = {
    "Schema.fields": 2 * _FIELDS_MAX,
    "Schema.former": 2 * FORMER_FIELDS_MAX,
    "AlterSchema.changes": 2 * CHANGES_AT_ONCE_MAX,
    "BatchHeader.columns": 2 * _FIELDS_MAX,
    "CommitEpochCall.attempts": TopicLimits().attempts_per_epoch_max,
    "CreateTopicCall.settings": 2 * len(SETTINGS),
    "AlterTopicCall.settings": 2 * len(SETTINGS),
    "KeysReply.keys": 2 * KEYS_PER_PAGE_MAX,
    "ReadCall.field_ids": 2 * _FIELDS_MAX,
    "WatchGroups.groups": 2 * ControllerLimits().topics_max,
    "ScrubCall.groups": 2 * ControllerLimits().topics_max,
    "AddNode.parents": 2 * PARENTS_MAX,
    "SetParents.parents": 2 * PARENTS_MAX,
    "PlaceGroupCall.voters": 2 * REPLICAS_MAX,
    "PeerHello.earlier_boot_ids": 2 * BOOT_IDS_MAX,
    "RegisterNode.earlier_boot_ids": 2 * BOOT_IDS_MAX,
}
"""Values of a list at most, by the kind of message and the field's name: twice what a machine
takes, whose error tells a user more. Attempts of an epoch are the longest list: each takes work."""
_CHECKED_ELSEWHERE = (pb.Bound.DESCRIPTOR, pb.Predicate.DESCRIPTOR)
"""By `get_bound` and by the decoder of predicates, which counts nodes before it reads texts."""


def text_limit(kind: str, field: str) -> int:
    """The most characters of the field's text. Raises `KeyError` for one that has no limit yet."""
    own = f"{kind}.{field}"
    return _LIMITS[own] if own in _LIMITS else _LIMITS[field]


class _TextCheck:
    """Checks the texts and lists of messages of one kind, and of the messages in them."""

    def __init__(self, kind: Descriptor) -> None:
        self._kind = kind.name
        self._texts: list[tuple[str, int]] = []
        self._lists: list[tuple[str, int, int]] = []
        self._parts: list[tuple[str, _TextCheck]] = []
        self._members: list[tuple[str, int, _TextCheck | None]] = []
        for field in kind.fields:
            if field.type == field.TYPE_STRING:
                most = text_limit(kind.name, field.name)
                if field.is_repeated:
                    self._lists.append((field.name, most, _list_limit(field)))
                else:
                    self._texts.append((field.name, most))
            elif _is_checked(field):
                part = field.message_type
                of = text_check(part) if part is not None and has_texts(part) else None
                if field.is_repeated:
                    self._members.append((field.name, _list_limit(field), of))
                elif of is not None:
                    self._parts.append((field.name, of))
        self._is_nested = bool(self._lists or self._parts or self._members)

    def __call__(self, message: Any) -> None:
        """Raises `Unreadable` for a text or list that is too long."""
        for name, most in self._texts:
            if len(getattr(message, name)) > most:
                raise self._too_long(name, len(getattr(message, name)), most)
        if self._is_nested:
            self._check_inside(message)

    def _check_all(self, messages: Any) -> None:
        """The same for many messages: a reply has a thousand keys, say."""
        for name, most in self._texts:
            longest = max(map(len, map(attrgetter(name), messages)), default=0)
            if longest > most:
                raise self._too_long(name, longest, most)
        if self._is_nested:
            for message in messages:
                self._check_inside(message)

    def _check_inside(self, message: Any) -> None:
        for name, most, limit in self._lists:
            texts = getattr(message, name)
            if len(texts) > limit:
                raise self._too_many(name, len(texts), limit)
            longest = max(map(len, texts), default=0)
            if longest > most:
                raise self._too_long(name, longest, most)
        for name, check in self._parts:
            if message.HasField(name):
                check(getattr(message, name))
        for name, limit, member_check in self._members:
            members = getattr(message, name)
            if len(members) > limit:
                raise self._too_many(name, len(members), limit)
            if member_check is not None:
                member_check._check_all(members)

    def _too_many(self, name: str, count: int, limit: int) -> Unreadable:
        return Unreadable(f"{self._kind}.{name} has {count} values; {limit} are allowed")

    def _too_long(self, name: str, length: int, most: int) -> Unreadable:
        where = f"{self._kind}.{name}"
        return Unreadable(f"{where} has {length} characters; {most} are allowed")


@cache
def text_check(kind: Descriptor) -> _TextCheck:
    """What checks the texts and lists of a message of this kind."""
    return _TextCheck(kind)


@cache
def has_texts(kind: Descriptor) -> bool:
    """Whether messages of the kind have texts or lists to check here. No kind but those that are
    checked elsewhere contains messages of its own kind."""
    return kind not in _CHECKED_ELSEWHERE and any(
        field.type == field.TYPE_STRING or _is_checked(field) for field in kind.fields
    )


def _is_checked(field: FieldDescriptor) -> bool:
    """Is it a list with a limit of its own, or of messages that are checked?"""
    part = field.message_type
    return _own_name(field) in _LISTS or (part is not None and has_texts(part))


def _list_limit(field: FieldDescriptor) -> int:
    return _LISTS.get(_own_name(field), LIST_VALUES_MAX)


def _own_name(field: FieldDescriptor) -> str:
    assert field.containing_type is not None, "no field of ours is an extension"
    return f"{field.containing_type.name}.{field.name}"
