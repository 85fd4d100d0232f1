"""Settings of the log of administrative acts and refusals."""

from __future__ import annotations

from raftlog.config_section import Section, setting


class AuditSettings(Section):
    """Who changed the cluster, and who was refused: a file of its own at each node."""

    file: str = setting(
        "",
        "Where the node appends a line of JSON for each act and refusal; `{node}` in the path "
        "stands for the node's id. Empty: nowhere.",
    )
    required: bool = setting(
        False,
        "Whether an operation is rejected that cannot be written into the file, and synced, before "
        "it is done.",
    )
    file_bytes_max: int = setting(
        16 << 20, "A longer file becomes FILE.1, FILE.1 becomes FILE.2, and so on.", ge=1 << 12
    )
    files_max: int = setting(
        10, "So many former files are kept; older ones are deleted.", ge=1, le=1000
    )
