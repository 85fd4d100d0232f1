"""Which package may import which: a table, checked on every import statement of the project.

An import inside a function or under TYPE_CHECKING counts as well, except where the table says
"inside a function only".
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ("raftlog", "pyspark_raftlog", "connector", "spark_jobs")
LINKED = {"connector": "raftlog.spark", "spark_jobs": "raftlog.spark_jobs"}
"""Folders at the root that links in `raftlog` give another name, the only one to import."""
ANYONE_MAY = ("raftlog.errors", "raftlog.core.types", "raftlog.checksum")
"""Values and the one checksum: open to every package except those below them."""

PURE = frozenset(
    "__future__ abc array bisect collections copy dataclasses enum errno functools hashlib"
    " heapq itertools json math operator re shlex struct sys types typing uuid".split()
)
"""The standard library's parts without time, chance, threads, files or sockets (`sys` for its
byteorder). Without `difflib` too, which takes cubic time: callers choose the names of topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What the modules below one prefix may import, beside themselves."""

    ours: tuple[str, ...] = ()
    anyone: tuple[str, ...] = ANYONE_MAY
    third_party: tuple[str, ...] = ()
    pure: bool = False
    """Of the standard library, only PURE."""
    inside_functions: tuple[str, ...] = ()


VALUES = (
    "raftlog.machines.commands",
    "raftlog.machines.evolution",
    "raftlog.machines.group_info",
    "raftlog.machines.kv_commands",
    "raftlog.machines.limits",
    "raftlog.machines.outcomes",
    "raftlog.machines.schema",
    "raftlog.machines.settings",
    "raftlog.machines.topic_names",
    "raftlog.machines.widening",
)
"""What a client's calls take and give, and the bounds of it."""

PACKAGES = {
    "raftlog.errors": Package(ours=("raftlog.redaction",), anyone=(), pure=True),
    "raftlog.core.types": Package(anyone=(), pure=True),
    "raftlog.checksum": Package(third_party=("google_crc32c",), pure=True),
    "raftlog.core": Package(pure=True),
    "raftlog.machines": Package(ours=("raftlog.config_hosts",), pure=True),
    "raftlog.machines.schema": Package(
        third_party=("pyarrow",), pure=True, inside_functions=("raftlog.records.arrow_types",)
    ),
    "raftlog.predicates": Package(anyone=(), pure=True),
    "raftlog.config_section": Package(ours=(), third_party=("pydantic",)),
    "raftlog.stored_values": Package(ours=(), third_party=("pydantic",)),
    "raftlog.changing_files": Package(ours=(), third_party=("tenacity",)),
    "raftlog.crash_dumps": Package(anyone=()),
    "raftlog.extras": Package(anyone=()),
    "raftlog.redaction": Package(anyone=()),
    "raftlog.config_hosts": Package(ours=()),
    "raftlog.config_secrets": Package(ours=(), third_party=("pydantic",)),
    "raftlog.config_metrics": Package(
        ours=(
            "raftlog.config_hosts",
            "raftlog.config_secrets",
            "raftlog.config_section",
            "raftlog.config_tls",
            "raftlog.redaction",
        )
    ),
    "raftlog.config_tls": Package(ours=("raftlog.config_hosts", "raftlog.config_section")),
    "raftlog.config_credentials": Package(
        ours=("raftlog.config_secrets", "raftlog.config_section", "raftlog.config_tls"),
        third_party=("pydantic",),
    ),
    "raftlog.config_tracing": Package(
        ours=(
            "raftlog.config_hosts",
            "raftlog.config_section",
            "raftlog.extras",
            "raftlog.redaction",
        )
    ),
    "raftlog.tracing": Package(third_party=("opentelemetry",)),
    "raftlog.config_audit": Package(ours=("raftlog.config_section",)),
    "raftlog.config_auth": Package(
        ours=("raftlog.auth.principals", "raftlog.config_section", "raftlog.redaction")
    ),
    "raftlog.config_problems": Package(ours=("raftlog.config_section",), third_party=("pydantic",)),
    "raftlog.config_ensemble": Package(
        ours=(
            "raftlog.config_hosts",
            "raftlog.config_secrets",
            "raftlog.config_section",
            "raftlog.config_tls",
            "raftlog.redaction",
        )
    ),
    "raftlog.config_raft": Package(ours=("raftlog.config_section",)),
    "raftlog.config": Package(
        ours=(
            "raftlog.config_audit",
            "raftlog.config_auth",
            "raftlog.config_credentials",
            "raftlog.config_ensemble",
            "raftlog.config_hosts",
            "raftlog.config_metrics",
            "raftlog.config_problems",
            "raftlog.config_raft",
            "raftlog.config_secrets",
            "raftlog.config_section",
            "raftlog.config_tls",
            "raftlog.config_tracing",
            "raftlog.redaction",
        ),
        third_party=("pydantic", "pydantic_settings"),
    ),
    "raftlog.wire": Package(
        ours=(
            "raftlog.core.membership",
            "raftlog.core.messages",
            "raftlog.founders",
            "raftlog.machines",
            "raftlog.predicates",
            "raftlog.stored_values",
        ),
        third_party=("google", "grpc", "grpc_tools", "pydantic"),
    ),
    "raftlog.founders": Package(ours=("raftlog.config_hosts",)),
    "raftlog.storage": Package(ours=("raftlog.config", "raftlog.founders")),
    "raftlog.image": Package(
        ours=(
            "raftlog.core.membership",
            "raftlog.machines",
            "raftlog.state_hash",
            "raftlog.storage",
            "raftlog.wire",
        ),
        third_party=("pydantic",),
    ),
    "raftlog.comparison": Package(ours=("raftlog.core",), pure=True),
    "raftlog.damage_table": Package(pure=True),
    "raftlog.placement": Package(ours=("raftlog.machines.group_info",), pure=True),
    "raftlog.state_hash": Package(ours=("raftlog.machines",), pure=True),
    "raftlog.replica": Package(
        ours=(
            "raftlog.core",
            "raftlog.image",
            "raftlog.machines",
            "raftlog.comparison",
            "raftlog.damage_table",
            "raftlog.state_hash",
            "raftlog.storage",
            "raftlog.wire",
        )
    ),
    "raftlog.multiraft": Package(
        ours=(
            "raftlog.config_hosts",
            "raftlog.core",
            "raftlog.founders",
            "raftlog.image",
            "raftlog.machines",
            "raftlog.replica",
            "raftlog.comparison",
            "raftlog.damage_table",
            "raftlog.state_hash",
            "raftlog.storage",
            "raftlog.wire",
        ),
        pure=True,
    ),
    "raftlog.transport": Package(
        ours=(
            "raftlog.core.messages",
            "raftlog.wire",
            "raftlog.certificates",
            "raftlog.config",
            "raftlog.config_hosts",
            "raftlog.tls",
        ),
        third_party=("grpc", "structlog"),
    ),
    "raftlog.tls": Package(
        ours=("raftlog.changing_files", "raftlog.config_tls", "raftlog.redaction"),
        third_party=("grpc", "pydantic", "tenacity"),
    ),
    "raftlog.auth": Package(
        ours=(
            "raftlog.changing_files",
            "raftlog.config_auth",
            "raftlog.redaction",
            "raftlog.stored_values",
        ),
        third_party=("jwt", "pydantic"),
    ),
    "raftlog.certificates": Package(
        ours=("raftlog.changing_files", "raftlog.config_hosts", "raftlog.tls"),
        third_party=("cryptography",),
    ),
    "raftlog.records": Package(
        ours=(
            "raftlog.machines.limits",
            "raftlog.machines.schema",
            "raftlog.machines.widening",
            "raftlog.predicates",
            "raftlog.redaction",
            "raftlog.wire.arrow_message",
            "raftlog.wire.batch",
            "raftlog.wire.framing",
            "raftlog.wire.runs",
        ),
        third_party=("numpy", "pyarrow", "sqlglot"),
    ),
    "raftlog.compaction": Package(
        ours=(
            "raftlog.core.membership",
            "raftlog.image",
            "raftlog.machines",
            "raftlog.records",
            "raftlog.state_hash",
            "raftlog.storage",
            "raftlog.wire",
        ),
        third_party=("pyarrow",),
    ),
    "raftlog.discovery": Package(
        ours=(
            "raftlog.config_ensemble",
            "raftlog.config_hosts",
            "raftlog.config_secrets",
            "raftlog.founders",
        ),
        third_party=("kazoo", "pydantic"),
    ),
    "raftlog.metrics": Package(
        ours=(
            "raftlog.changing_files",
            "raftlog.config_metrics",
            "raftlog.config_secrets",
            "raftlog.wire.calls",
        ),
        third_party=("prometheus_client", "pydantic"),
    ),
    "raftlog.client": Package(
        ours=(
            "raftlog.auth.principals",
            "raftlog.auth.grant_keys",
            "raftlog.auth.quota_keys",
            "raftlog.auth.quotas",
            "raftlog.auth.rights",
            "raftlog.config_secrets",
            "raftlog.discovery",
            "raftlog.wire",
            "raftlog.config",
            "raftlog.config_ensemble",
            "raftlog.config_hosts",
            "raftlog.config_section",
            "raftlog.config_tls",
            "raftlog.config_tracing",
            "raftlog.machines.byte_index",
            "raftlog.placement",
            "raftlog.predicates.predicate",
            "raftlog.records",
            "raftlog.tls",
            "raftlog.tracing",
            *VALUES,
            "raftlog.redaction",
        ),
        third_party=("grpc", "pandas", "pyarrow", "pydantic", "tenacity"),
    ),
    "raftlog.server": Package(
        ours=(
            "raftlog.auth",
            "raftlog.certificates",
            "raftlog.config",
            "raftlog.config_audit",
            "raftlog.config_auth",
            "raftlog.config_hosts",
            "raftlog.config_metrics",
            "raftlog.config_tls",
            "raftlog.config_tracing",
            "raftlog.core",
            "raftlog.crash_dumps",
            "raftlog.discovery",
            "raftlog.metrics",
            "raftlog.image",
            "raftlog.multiraft",
            "raftlog.machines",
            "raftlog.replica",
            "raftlog.comparison",
            "raftlog.placement",
            "raftlog.predicates",
            "raftlog.storage",
            "raftlog.tls",
            "raftlog.tracing",
            "raftlog.transport",
            "raftlog.wire",
            "raftlog.version",
            "raftlog.redaction",
        ),
        third_party=(
            "cachetools",
            "grpc",
            "grpc_health",
            "prometheus_client",
            "structlog",
            "uvloop",
        ),
    ),
    "raftlog.chaos": Package(
        ours=("raftlog.client", "raftlog.config", "raftlog.config_section"),
        third_party=("pyarrow",),
    ),
    # A cluster that is closed has its certificates and tokens from where users' have them.
    "raftlog.chaos.closed": Package(
        ours=(
            "raftlog.auth",
            "raftlog.certificates",
            "raftlog.changing_files",
            "raftlog.client",
        )
    ),
    # A disk that fails on command wraps the real one behind the same interface ...
    "raftlog.chaos.faulty_disk": Package(ours=("raftlog.storage.contract",)),
    # ... below a real node: the program that joins them is imported by nothing.
    "raftlog.chaos.faulty_node": Package(
        ours=(
            "raftlog.chaos.faulty_disk",
            "raftlog.config",
            "raftlog.server.compactor",
            "raftlog.server.main",
            "raftlog.storage.contract",
            "raftlog.storage.posix",
        )
    ),
    "raftlog.bench": Package(ours=("raftlog.client",), third_party=("pyarrow",)),
    "raftlog.bench.profile": Package(
        ours=("raftlog.bench", "raftlog.client", "raftlog.config"),
        third_party=("grpc", "opentelemetry"),
    ),
    "raftlog.cli": Package(
        ours=(
            "raftlog.changing_files",
            "raftlog.auth",
            "raftlog.client",
            "raftlog.config",
            "raftlog.config_ensemble",
            "raftlog.config_hosts",
            "raftlog.config_metrics",
            "raftlog.config_tls",
            "raftlog.config_tracing",
            "raftlog.crash_dumps",
            "raftlog.chaos",
            "raftlog.bench",
            "raftlog.discovery",
            "raftlog.extras",
            "raftlog.founders",
            "raftlog.records",
            *VALUES,
            "raftlog.redaction",
        ),
        third_party=("pyarrow", "rich", "typer"),
        inside_functions=("raftlog.server",),
    ),
    "raftlog.cli.stores": Package(
        ours=(
            "raftlog.cli",
            "raftlog.founders",
            "raftlog.image",
            "raftlog.machines",
            "raftlog.storage",
        ),
    ),
    "raftlog.cli.certs": Package(
        ours=(
            "raftlog.cli",
            "raftlog.certificates",
            "raftlog.config_hosts",
            "raftlog.machines.limits",
            "raftlog.redaction",
        ),
        third_party=("typer",),
    ),
    # What it knows of checkpoints needs no Spark, which a test makes sure of.
    "raftlog.cli.doctor": Package(
        ours=("raftlog.cli", "raftlog.spark.doctor", "raftlog.spark.findings"),
        third_party=("typer",),
    ),
    "raftlog.__main__": Package(ours=("raftlog.cli",)),
    "raftlog": Package(
        ours=(
            "raftlog.auth.principals",
            "raftlog.auth.quotas",
            "raftlog.auth.rights",
            "raftlog.client",
            "raftlog.config",
            "raftlog.founders",
            "raftlog.placement",
            "raftlog.predicates.predicate",
            "raftlog.wire.calls",
            "raftlog.wire.group_calls",
            "raftlog.wire.placing_calls",
            "raftlog.wire.reader_positions",
            *VALUES,
        )
    ),
    "raftlog.spark": Package(
        ours=(
            "raftlog.client",
            "raftlog.config",
            "raftlog.config_ensemble",
            "raftlog.config_hosts",
            "raftlog.config_secrets",
            "raftlog.config_tls",
            "raftlog.config_tracing",
            "raftlog.machines.limits",
            "raftlog.machines.schema",
            "raftlog.machines.topic_names",
            "raftlog.predicates",
            "raftlog.records",
            "raftlog.wire.codec",
            "raftlog.redaction",
        ),
        third_party=("pyspark", "pyarrow", "py4j"),
    ),
    "pyspark_raftlog": Package(ours=("raftlog.spark",), pure=True),
    "raftlog.spark_jobs": Package(third_party=("pyspark", "rich", "py4j"), anyone=()),
}
"""By prefix; the longest one decides. `raftlog` by itself is `raftlog/__init__.py`."""

OPEN_TO_USERS = ("raftlog.chaos", "raftlog.cli", "raftlog.spark")
"""Packages that use raftlog as a user does: `import raftlog`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, with the line and whether a function holds the statement."""

    target: str
    line: int
    inside_function: bool


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name, except generated code."""
    found = {"pyspark_raftlog": ROOT / "pyspark_raftlog.py"}
    for top in ("raftlog", *LINKED):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT / top).with_suffix("").parts
            name = ".".join([LINKED.get(top, top), *(p for p in parts if p != "__init__")])
            if not name.endswith("_pb2"):
                found[name] = path
    return {name: path for name, path in found.items() if path.exists()}


def imports_of(tree: ast.Module, known: frozenset[str]) -> Iterator[Import]:
    """What a module imports. `from a import b` names module a.b where that is one of `known`."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        inner = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        waiting.extend(
            (child, inner)
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.expr)  # which holds no statement
        )
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(target=alias.name, line=node.lineno, inside_function=inside)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                target = f"{base}.{alias.name}"
                target = target if target in known or target.endswith("_pb2") else base
                yield Import(target=target, line=node.lineno, inside_function=inside)


def complaints(name: str, tree: ast.Module, known: frozenset[str]) -> list[str]:
    """What breaks the table in module `name`; one sentence each."""
    prefix = max((p for p in PACKAGES if _below(name, p)), key=len)
    package = PACKAGES[prefix]
    found = []
    for item in imports_of(tree, known):
        if not _allowed(package, prefix, item):
            found.append(f"{name}, line {item.line}: {prefix} may not import {item.target}")
        generated = item.target.startswith("raftlog.") and item.target.endswith("_pb2")
        if generated and not name.startswith("raftlog.wire.codec"):
            found.append(f"{name}, line {item.line}: only the codec touches generated code")
    return found


def _allowed(package: Package, prefix: str, item: Import) -> bool:
    target = item.target
    top = target.partition(".")[0]
    if target.startswith("."):
        return False
    if top in OURS:
        if prefix == "raftlog":  # raftlog/__init__.py is not around all the others
            return _below_any(target, package.ours + package.anyone)
        return (
            _below(target, prefix)
            or _below_any(target, package.ours + package.anyone)
            or (target == "raftlog" and prefix in OPEN_TO_USERS)
            or (item.inside_function and _below_any(target, package.inside_functions))
        )
    if top in sys.stdlib_module_names:
        return not package.pure or top in PURE
    return top in package.third_party


def _below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _below_any(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(_below(name, prefix) for prefix in prefixes)


KNOWN = modules()


def test_every_module_imports_only_what_its_room_may() -> None:
    found = {}
    for name, path in KNOWN.items():
        found[name] = complaints(name, ast.parse(path.read_text("utf-8")), frozenset(KNOWN))
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("raftlog.core.raft", "import time"),
        ("raftlog.core.raft", "from raftlog.storage import log"),
        ("raftlog.core.types", "from raftlog.errors import NotLeader"),
        ("raftlog.machines.topic", "from raftlog.core.raft import Raft"),
        ("raftlog.machines.topic", "import random"),
        ("raftlog.storage.log", "import grpc"),
        ("raftlog.multiraft.multiraft", "import asyncio"),
        ("raftlog.multiraft.groups", "import threading"),
        ("raftlog.multiraft.multiraft", "from raftlog.server import node"),
        ("raftlog.client.log_client", "from raftlog.server import node"),
        ("raftlog.client.log_client", "def f():\n    import raftlog.storage.log"),
        ("raftlog.server.node", "from raftlog.records import conform"),
        ("raftlog.records.conform", "from raftlog.client import log_client"),
        ("raftlog.server.node", "from raftlog.wire import raftlog_pb2"),
        ("raftlog.cli.up", "from raftlog.server.main import run_node"),
        ("raftlog.cli.up", "from raftlog.storage import log"),
        ("raftlog", "from raftlog.server import node"),
        ("raftlog.spark.reader", "from connector import options"),
        ("raftlog.spark.reader", "from raftlog.wire import codec"),
        ("raftlog.spark_jobs.ingest", "import raftlog"),
        ("raftlog.spark_jobs.ingest", "import pandas"),
        ("raftlog.spark_jobs.ingest", "from spark_jobs import session"),
        ("raftlog.core.raft", "from . import types"),
    ],
)
def test_a_forbidden_import_is_noticed(name: str, line: str) -> None:
    known = frozenset({"raftlog.server.node", "raftlog.storage.log", "raftlog.records.conform"})
    assert complaints(name, ast.parse(line), known) != []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("raftlog.core.raft", "from raftlog.core.messages import Heartbeat"),
        ("raftlog.core.raft", "from raftlog.errors import NotLeader"),
        ("raftlog.machines.topic", "from raftlog.core.types import GroupId"),
        ("raftlog.wire.codec_calls", "from raftlog.wire import raftlog_pb2 as pb"),
        ("raftlog.cli.serve", "def f():\n    from raftlog.server.main import run_node"),
        ("raftlog.cli.tail", "import raftlog"),
        ("raftlog.spark.reader", "import pyarrow.compute as pc"),
    ],
)
def test_an_allowed_import_passes(name: str, line: str) -> None:
    assert complaints(name, ast.parse(line), frozenset()) == []
