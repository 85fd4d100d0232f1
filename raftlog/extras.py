"""The command that adds an optional part ("extra") to this installation of raftlog.

No index has raftlog, so `pip install "raftlog[server]"` finds nothing. pip records where it
installed a package from in the file direct_url.json (PyPA's specification "Recording the Direct URL
Origin of installed distributions"), and the command names the same place again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_SOMEWHERE = "file:///path/to/raftlog-VERSION-py3-none-any.whl"
"""Where a wheel is that was not installed from a file, or from one that is gone."""


def pip_line(extra: str) -> str:
    """The line for a shell that adds the extra to what is installed."""
    return _line(extra, _direct_url())


def _direct_url() -> dict[str, Any]:
    """What pip recorded; empty if raftlog is not installed, or came from an index."""
    from importlib import metadata  # takes 30 ms, and only an error needs it

    try:
        recorded = metadata.distribution("raftlog").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # a folder on PYTHONPATH, or a zip sent to executors
        return {}
    return json.loads(recorded) if recorded else {}


def _line(extra: str, direct_url: dict[str, Any]) -> str:
    url = direct_url.get("url", _SOMEWHERE)
    is_file = url.startswith("file:")
    path = Path(unquote(urlsplit(url).path)) if is_file else None
    if path is not None and not path.exists():
        return f'pip install "raftlog[{extra}] @ {_SOMEWHERE}"'
    if path is not None and "dir_info" in direct_url:
        editable = "-e " if direct_url["dir_info"].get("editable") else ""
        return f'pip install {editable}"{path}[{extra}]"'
    if vcs := direct_url.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f'pip install "raftlog[{extra}] @ {url}"'
