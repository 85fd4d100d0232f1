"""Which values an epoch's key may have, checked before anything is sent.

The log applies the same bounds (`raftlog.machines.limits`). Checked here, the error names the
caller's field, and a number beyond the wire's 64 bits does not fail in the encoder.
"""

from __future__ import annotations

import reprlib

from raftlog.client.arguments import flag_argument, is_unicode, whole_argument, wrong_type
from raftlog.errors import InvalidOption
from raftlog.machines.commands import EpochKey
from raftlog.machines.limits import TEXT_CHARACTERS_MAX


def check_key(key: object) -> None:
    """Raises `InvalidOption`, with the field, its value and its bounds, for a key that no topic
    accepts."""
    if not isinstance(key, EpochKey):
        raise wrong_type("key", key, "Give an EpochKey.")
    for name, number in (("epoch", key.epoch), ("stream_batch", key.stream_batch)):
        whole_argument(f"EpochKey.{name}", number)
    flag_argument("EpochKey.streaming", key.streaming)
    for name, text, least in (
        ("writer", key.writer, 1),
        ("query_id", key.query_id, 1),
        ("run", key.run, 1),
        ("stream", key.stream, 0),
        ("stream_run", key.stream_run, 0),
    ):
        if not isinstance(text, str):
            raise wrong_type(f"EpochKey.{name}", text, "Give a text.")
        if not is_unicode(text):
            raise InvalidOption(
                option=f"EpochKey.{name}",
                problem=f"is {reprlib.repr(text)}, which UTF-8 cannot hold",
                advice="Give characters of Unicode.",
            )
        if not least <= len(text) <= TEXT_CHARACTERS_MAX:
            raise InvalidOption(
                option=f"EpochKey.{name}",
                problem=f"is {reprlib.repr(text)}, which has {len(text)} characters; {least} to "
                f"{TEXT_CHARACTERS_MAX} are allowed",
                advice="Give a short name that the writer keeps.",
            )
