"""The bounds of an image's files: what a node reads whole of one has a bound before it is read.

Those of what is received are for what another node gave, and no honest node exceeds them. A node's
own files are read without them.
"""

from __future__ import annotations

from raftlog.machines.limits import STAGED_ENTRY_BYTES, TopicLimits
from raftlog.storage.frames import SEGMENT_HEADER_BYTES

_MIB = 1024 * 1024

ENTRY_BYTES_MAX = 264 * _MIB
"""Of a stage, or of a row group's body. An entry has 256 MiB at most (`server.entry_bytes_max`);
what is merged is compressed from 64 MiB (`raftlog.compaction.merge`)."""

DESCRIPTION_BYTES_MAX = 24 * _MIB
"""Of a row group. A command, and with it a batch's header, has 20 MiB at most; the runs of a row
group take less than 3 MiB (`raftlog.compaction.cuts`)."""

RECEIVED_ROW_GROUPS_MAX = 2_000_000
"""Of a history file; its index takes some 200 MB to read. Each is made of one entry or more, and
with the default settings 320,000 come between two snapshots at most, besides stages that a commit
shows. A small file that is written again has 16 MiB of records."""

RECEIVED_FOOTER_BYTES_MAX = 24 * RECEIVED_ROW_GROUPS_MAX
"""A row has a CRC and four numbers of five bytes or fewer."""

RECEIVED_FRAMES_MAX = 2 * TopicLimits().writer_bytes_max // STAGED_ENTRY_BYTES
"""Of a file of stages: as many as all writers of a topic may have open. They take 150 MB."""

RECEIVED_SNAPSHOT_BYTES_MAX = 576 * _MIB
"""A topic's state has 518 MiB at most, the key-value store's far fewer. Reading it takes three
times as much memory."""

RECEIVED_MANIFEST_BYTES_MAX = 64 * _MIB
"""Of its text, which is decoded on the loop."""

FILE_BYTES_MIN = SEGMENT_HEADER_BYTES + 32
"""Of a file of history or stages. Each has a header, and a trailer or a frame."""

RECEIVED_FILES_MAX = 400_000
"""Files in a manifest: of 16 MiB or more, 6 TB of one topic."""
