"""The habits of the house that a walk over the source can check; generated code is exempt.

Lines of at most 100 columns, functions below 70 lines, files below 700; no blind except, no
sleeping, no pickle or eval, nothing left to do; a docstring on every module and public name; no
module named after nothing in particular; no field that hides a method of its class. In tests no
upper bound of wall time, no wait with a patience of its own, and no count of real elections: a
slow machine makes them false. Commands print through `raftlog.cli.output`, and what the product
starts on a Python of its own has -P.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("raftlog", "connector", "spark_jobs", "tests")
LINE_COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 69
FILE_LINES_MAX = 699

BANNED_MODULES = frozenset(
    "util utils common manager managers helper helpers misc base tools stuff".split()
)
BANNED_IMPORTS = frozenset("pickle cPickle marshal shelve dill cloudpickle".split())
HARMLESS_OF_YAML = frozenset(("safe_load", "safe_dump"))
BANNED_CALLS = frozenset(("time.sleep", "eval", "exec", "compile", "os.system"))
RAW_OUTPUTS = frozenset(
    "print typer.echo typer.secho typer.confirm os.write Table rich.print"
    " sys.stdout.write sys.stdout.buffer.write sys.stderr.write sys.stderr.buffer.write".split()
)
ADVISED = re.compile(
    r"\braftlog (--servers|acl|certs|cluster|doctor|docs|down|groups|init|kv|lag|produce|quota"
    r"|serve|tail|tokens|topic|up|watermark|writers)\b[^.;,()]*$"
)
"""The beginning of a command that a message advises."""
NUMBERS = ("node", "new", "to")
UNQUOTED_FIELD = re.compile(r"_text = .*`raftlog [a-z][^`]*\{(?!node)")
LEFT_TO_DO = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
OUTSIDE_WORDS = ("clau" + "de", "anthro" + "pic", "chat" + "gpt", "copil" + "ot")
"""The project speaks only of itself."""

SPARKS_NAMES = frozenset(("commit", "abort"))
"""Methods of Spark's interface: a bare "commit" is no concept of ours, so no name of ours."""

BOUND = re.compile(r"[A-Z_]+_(S|MS|MAX|MIN|BYTES|TICKS|HEARTBEATS|TRIES|THREADS|LIMIT)$")
ROOMS_WITH_SETTINGS = (
    "raftlog/server/", "raftlog/multiraft/", "raftlog/transport/", "raftlog/client/",
    "raftlog/storage/", "raftlog/spark/", "connector/",
)  # fmt: skip
"""Where a timeout or bound is in conf/raftlog.toml, or says why it is none of a user's business."""
CLOCKS = re.compile(r"\b(monotonic|perf_counter)(_ns)?\(\)")
"""What shows wall time. Tests also ask for the date, which is another thing."""
PATIENCES = ("PATIENCE_S", "timeout_s")
"""How long a test waits: always so long, or as long as its caller says, which is so long."""
TUPLE_METHODS = frozenset(name for name in dir(tuple) if not name.startswith("_"))

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LEAVES = (ast.Constant, ast.Name)
"""Below them is nothing that a check looks for, and half of all nodes are such."""

Check = Callable[[str, ast.Module], Iterator[str]]


def sources() -> dict[str, Path]:
    """Every Python file of the project by its path below the root."""
    paths = [*ROOT.glob("*.py")]
    for folder in FOLDERS:
        paths += (ROOT / folder).rglob("*.py")
    return {
        str(path.relative_to(ROOT)): path
        for path in sorted(paths)
        if not path.name.endswith("_pb2.py")
    }


def long_lines(text: str, tree: ast.Module) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield f"line {number} has {len(line)} columns"


def long_files(text: str, tree: ast.Module) -> Iterator[str]:
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"the file has {lines} lines: its design is asking a question"


def long_functions(text: str, tree: ast.Module) -> Iterator[str]:
    for function in _nodes(tree, *FUNCTIONS):
        lines = (function.end_lineno or 0) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{function.name} has {lines} lines"


def blind_excepts(text: str, tree: ast.Module) -> Iterator[str]:
    """`except Exception` and wider, and handlers that swallow what they catch."""
    for node in _nodes(tree, ast.ExceptHandler):
        caught = ast.unparse(node.type) if node.type else "everything"
        if re.search(r"\b(Exception|BaseException|everything)\b", caught):
            yield f"line {node.lineno} catches {caught}"


def banned_calls(text: str, tree: ast.Module) -> Iterator[str]:
    """Sleeping, and anything that turns data into code."""
    for node in _nodes(tree, ast.Call):
        if (name := _dotted(node.func)) in BANNED_CALLS:
            yield f"line {node.lineno} calls {name}"
    for node in _nodes(tree, ast.Attribute):
        if _dotted(node.value) == "yaml" and node.attr not in HARMLESS_OF_YAML:
            yield f"line {node.lineno} uses yaml.{node.attr}"
    for node in _nodes(tree, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module or ""]
            if node.module == "yaml":
                yield f"line {node.lineno} takes names out of yaml, where some run what they read"
            if node.module == "time" and any(alias.name == "sleep" for alias in node.names):
                yield f"line {node.lineno} imports sleep"
        for name in BANNED_IMPORTS.intersection(name.partition(".")[0] for name in names):
            yield f"line {node.lineno} imports {name}"


def unbounded_receives(text: str, tree: ast.Module) -> Iterator[str]:
    """Options by which grpc decompresses whatever it is sent, however much that becomes."""
    for node in _nodes(tree, ast.Tuple):
        if ast.unparse(node) == "('grpc.max_receive_message_length', -1)":
            yield f"line {node.lineno} receives messages of any length"


def raw_output(text: str, tree: ast.Module) -> Iterator[str]:
    """Text of a command that reaches a terminal without `raftlog.cli.output`, which escapes it."""
    for node in _nodes(tree, ast.Call):
        if (name := _dotted(node.func)) in RAW_OUTPUTS:
            yield f"line {node.lineno} calls {name}"


def unquoted_words(text: str, tree: ast.Module) -> Iterator[str]:
    """Advised commands with a name that a shell would read as code."""
    for node in _nodes(tree, ast.JoinedStr):
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += part.value
            elif ADVISED.search(before.rpartition("`")[2]) and not _is_quoted(part.value):
                yield f"line {part.lineno} advises a command with {ast.unparse(part.value)}"
    for number, line in enumerate(text.splitlines(), 1):
        if UNQUOTED_FIELD.search(line):
            yield f"line {number} advises a command with a field as it is"


def _is_quoted(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return all(isinstance(each, ast.Constant) for each in (node.body, node.orelse))
    is_call = isinstance(node, ast.Call) and _dotted(node.func) in ("shlex.quote", "shlex.join")
    return is_call or _dotted(node).rpartition(".")[2] in NUMBERS


def _dotted(node: ast.expr) -> str:
    """The name that the source shows, such as time.sleep; "" for what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def uncounted_parses(text: str, tree: ast.Module) -> Iterator[str]:
    """A few bytes of another process can become very many objects."""
    for node in _nodes(tree, ast.Attribute):
        if node.attr in ("FromString", "ParseFromString", "MergeFromString"):
            yield f"line {node.lineno} uses {node.attr}, not raftlog.wire.codec_fields.parse"


def modules_of_the_working_directory(text: str, tree: ast.Module) -> Iterator[str]:
    """A Python that is started without -P: it imports what lies in the working directory first."""
    for node in _nodes(tree, ast.List, ast.Tuple):
        words = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
        for before, word, each in zip([None, *words], words, node.elts, strict=False):
            if word == "-m" and before != "-P":
                yield f"line {each.lineno} starts a module without -P"


def left_to_do(text: str, tree: ast.Module) -> Iterator[str]:
    if LEFT_TO_DO.search(text) is None and not _speaks_of_others(text):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if LEFT_TO_DO.search(line):
            yield f"line {number} leaves something to do"
        if _speaks_of_others(line):
            yield f"line {number} speaks of something outside the project"


def _speaks_of_others(text: str) -> bool:
    small = text.lower()
    return any(word in small for word in OUTSIDE_WORDS)


READER_OF_GROUPS = "raftlog/client/group_reader.py"
"""Its `commit` is what every consumer calls so, and commits nothing but a position."""


def bare_commits(text: str, tree: ast.Module) -> Iterator[str]:
    """A function or class whose whole name is a bare "commit" or "abort"."""
    for node in _nodes(tree, *FUNCTIONS, ast.ClassDef):
        if node.name.lower().strip("_") in SPARKS_NAMES:
            yield f"line {node.lineno} names {node.name}: commit_index, CommitEpoch, ... instead"


def hidden_methods(text: str, tree: ast.Module) -> Iterator[str]:
    """A field of a NamedTuple that hides a method of tuple; a frozen dataclass has no such."""
    for node in _nodes(tree, ast.ClassDef):
        if "NamedTuple" not in map(_dotted, node.bases):
            continue
        for member in node.body:
            field = ast.unparse(member.target) if isinstance(member, ast.AnnAssign) else ""
            if field in TUPLE_METHODS:
                yield f"line {member.lineno}: {node.name}.{field} hides tuple.{field}"


def bounds_on_wall_time(text: str, tree: ast.Module) -> Iterator[str]:
    """An assertion that something took less than some time."""
    if not CLOCKS.search(text):
        return
    spans = {
        name.id
        for node in _nodes(tree, ast.Assign)
        if _is_span(node.value)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    for asserted in _nodes(tree, ast.Assert):
        for node in ast.walk(asserted.test):
            if not isinstance(node, ast.Compare):
                continue
            operands = [node.left, *node.comparators]
            for before, sign, after in zip(operands, node.ops, operands[1:], strict=False):
                less = before if isinstance(sign, ast.Lt | ast.LtE) else after
                if isinstance(sign, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and (
                    _is_span(less) or _names(less) & spans
                ):
                    yield f"line {node.lineno} bounds wall time: {ast.unparse(node)}"


def _is_span(node: ast.expr) -> bool:
    """Does it subtract times that a clock shows?"""
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Sub)
        and CLOCKS.search(ast.unparse(part)) is not None
        for part in ast.walk(node)
    )


def _names(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def own_patience(text: str, tree: ast.Module) -> Iterator[str]:
    """A `wait_for` that waits for another time than `raftlog.chaos.cluster.PATIENCE_S`."""
    for node in _nodes(tree, ast.Assign):
        if "PATIENCE_S" in map(_dotted, node.targets):
            yield f"line {node.lineno} has a PATIENCE_S of its own"
    for node in _nodes(tree, ast.Call):
        place = {"wait_for": 2, "asyncio.wait_for": 1}.get(_dotted(node.func))
        if place is None:
            continue
        given = [*node.args[place : place + 1]]
        given += [each.value for each in node.keywords if each.arg in ("timeout_s", "timeout")]
        for each in given:
            if ast.unparse(each) not in PATIENCES:
                yield f"line {node.lineno} waits {ast.unparse(each)} s, and not PATIENCE_S"


def counted_elections(text: str, tree: ast.Module) -> Iterator[str]:
    """A test of real nodes that counts elections, or takes it that there is none: on a slow machine
    there are some. The simulator counts them."""
    for node in _nodes(tree, ast.ImportFrom):
        if node.module == "raftlog.chaos.node_logs":
            yield f"line {node.lineno} imports what counts elections"
    for node in _nodes(tree, ast.Assert):
        if not isinstance(node.test, ast.Compare):
            continue
        left, right = ast.unparse(node.test.left), ast.unparse(node.test.comparators[0])
        if "elections" in f"{left} {right}".lower() and not all(
            isinstance(sign, ast.Gt | ast.GtE) for sign in node.test.ops
        ):
            yield f"line {node.lineno} counts elections"
        if isinstance(node.test.ops[0], ast.Eq) and ".term" in left and ".term" in right:
            yield f"line {node.lineno} takes it that there is no election"


def unexplained_bounds(text: str, tree: ast.Module) -> Iterator[str]:
    """A timeout or bound that is no setting, and does not say why: its docstring follows it, with
    at most other such numbers in between."""
    for number, node in enumerate(tree.body):
        if not (isinstance(node, ast.Assign) and BOUND.match(ast.unparse(node.targets[0]))):
            continue
        if any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node.value)):
            continue  # it follows from others
        rest = itertools.dropwhile(lambda n: isinstance(n, ast.Assign), tree.body[number:])
        after = next(rest, None)
        if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
            yield f"line {node.lineno}: {ast.unparse(node.targets[0])} does not say why it is fixed"


def silent_modules(text: str, tree: ast.Module) -> Iterator[str]:
    """A module of tests that does not say what it shows."""
    if ast.get_docstring(tree) is None and tree.body:
        yield "the module has no docstring"


def missing_docstrings(text: str, tree: ast.Module) -> Iterator[str]:
    """Modules, public functions, classes that have methods, and methods that are no accessors.

    A method of one statement is its own documentation. A method that implements one of a
    documented interface (a `Protocol`, or a named base) is documented there.
    """
    yield from silent_modules(text, tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if _is_public(node) and ast.get_docstring(node) is None:
                yield f"{node.name} has no docstring"
        elif isinstance(node, ast.ClassDef) and _is_public(node) and not node.bases:
            methods = [method for method in _methods(node) if _is_public(method)]
            if methods and ast.get_docstring(node) is None:
                yield f"{node.name} has no docstring"
            for method in methods:
                if (
                    len(method.body) > 1
                    and ast.get_docstring(method) is None
                    and method.name not in interface_methods()
                ):
                    yield f"{node.name}.{method.name} has no docstring"


def _is_public(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return not node.name.startswith("_")


@functools.cache
def interface_methods() -> frozenset[str]:
    """Names of the methods of every `Protocol` of the project."""
    found = set()
    for path in (ROOT / "raftlog").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "(Protocol)" in text else ():
            if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
                found.update(method.name for method in _methods(node))
    return frozenset(found)


def _nodes(tree: ast.Module, *kinds: type[ast.AST]) -> Iterator[Any]:
    """All nodes of these kinds."""
    return itertools.chain.from_iterable(_by_kind(tree)[kind] for kind in kinds)


@functools.lru_cache(maxsize=1)
def _by_kind(tree: ast.Module) -> defaultdict[type[ast.AST], list[ast.AST]]:
    """All nodes of the tree that is checked at the moment, in one walk for all checks."""
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        found[type(node)].append(node)
        if type(node) not in LEAVES:
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for member in node.body:
        if isinstance(member, FUNCTIONS):
            yield member


MEASURING = ("tests/bench/", "tests/mutants/", "tests/explorer/")
"""Tools that measure, or that people run by themselves. Tests of Spark have more patience: each
starts a Java machine."""
OUTPUT = "raftlog/cli/output.py"
PARSERS = ("raftlog/wire/codec_fields.py", "raftlog/wire/codec_peers.py")
"""The second one parses a frame's messages one by one, each within a bound of its bytes."""
EVERYWHERE: tuple[Check, ...] = (
    long_lines, long_files, long_functions, blind_excepts, banned_calls, left_to_do,
    hidden_methods,
)  # fmt: skip
SOURCES = sources()


@pytest.mark.parametrize("folder", [*FOLDERS, "."])
def test_source_keeps_the_habits(folder: str) -> None:
    files = [file for file in SOURCES if (Path(file).parts[0] if "/" in file else ".") == folder]
    assert {file: found for file in files if (found := broken_habits(file))} == {}


def broken_habits(file: str) -> list[str]:
    """What a file does against the habits, a sentence each."""
    text = SOURCES[file].read_text(encoding="utf-8")
    tree = ast.parse(text)
    checks = EVERYWHERE
    if file.startswith("tests/"):
        checks += (silent_modules,)
    else:
        checks += (missing_docstrings, unquoted_words, unbounded_receives)
        checks += (modules_of_the_working_directory,)
    if file.startswith("tests/") and not file.startswith(MEASURING):
        checks += (bounds_on_wall_time,)
        checks += () if file.startswith("tests/spark/") else (own_patience,)
        checks += (counted_elections,) if file.startswith("tests/cluster/") else ()
    if file.startswith("raftlog/cli/") and file != OUTPUT:
        checks += (raw_output,)
    if file.startswith("raftlog/") and file not in PARSERS:
        checks += (uncounted_parses,)
    if file.startswith(ROOMS_WITH_SETTINGS):
        checks += (unexplained_bounds,)
    if not file.startswith(("tests/", "connector/")) and file != READER_OF_GROUPS:
        checks += (bare_commits,)
    return [sentence for check in checks for sentence in check(text, tree)]


def test_no_module_is_named_after_nothing() -> None:
    banned = [file for file, path in SOURCES.items() if path.stem in BANNED_MODULES]
    assert banned == []


@pytest.mark.parametrize(
    ("check", "text"),
    # What the checks must find, as text: none of it is run.
    [
        (long_lines, "x = '" + "y" * 100 + "'\n"),
        (long_files, "x = 1\n" * 700),
        (long_functions, "def f():\n" + "    x = 1\n" * 69),
        (blind_excepts, "try:\n    f()\nexcept Exception:\n    pass\n"),
        (blind_excepts, "try:\n    f()\nexcept (ValueError, BaseException):\n    pass\n"),
        (blind_excepts, "try:\n    f()\nexcept:\n    pass\n"),
        (banned_calls, "import time\ntime.sleep(1)\n"),  # source text for the check, never run
        (banned_calls, "from time import sleep\n"),
        (banned_calls, "from pickle import loads\n"),
        (banned_calls, "import yaml\nyaml.unsafe_load(text)\n"),
        (banned_calls, "from yaml import safe_load\n"),
        (banned_calls, "eval('1')\n"),  # source text for the check, never run
        (unbounded_receives, "OPTIONS = [('grpc.max_receive_message_length', -1)]\n"),
        (raw_output, "typer.echo(name)\n"),
        (raw_output, "sys.stdout.buffer.write(value)\n"),
        (unquoted_words, "f'`raftlog topic describe {topic.name}`'\n"),
        (unquoted_words, "f'see: raftlog --servers {servers} lag'\n"),
        (unquoted_words, "remedy_text = 'See `raftlog writers list {topic}`.'\n"),
        (uncounted_parses, "message = pb.Command.FromString(data)\n"),
        (modules_of_the_working_directory, "run([sys.executable, '-m', 'raftlog'])\n"),
        (left_to_do, "x = 1  # TO" + "DO later\n"),
        (left_to_do, "x = 1\n# asked Copil" + "ot\n"),
        (bare_commits, "class A:\n    def commit(self):\n        pass\n"),
        (hidden_methods, "class A(NamedTuple):\n    index: int\n"),
        (hidden_methods, "class A(NamedTuple, Generic[T]):\n    count: int = 0\n"),
        (unexplained_bounds, "_WAIT_S = 2.0\n"),
        (unexplained_bounds, "A_BYTES = 2\nB_BYTES = 3\nx = f()\n"),
        (bounds_on_wall_time, "assert time.monotonic() - begun_s < 5\n"),
        (bounds_on_wall_time, "assert 5 >= monotonic() - begun_s, 'late'\n"),
        (bounds_on_wall_time, "took_s = perf_counter() - begun_s\nassert 1 < took_s <= 5\n"),
        (bounds_on_wall_time, "took_s = monotonic() - begun_s\nassert x and took_s / 2 < 5\n"),
        (own_patience, "wait_for(f, 'what', 20)\n"),
        (own_patience, "wait_for(f, 'what', timeout_s=2 * PATIENCE_S)\n"),
        (own_patience, "wait_for(f, 'what', WAIT_S)\n"),
        (own_patience, "await asyncio.wait_for(f(), 1.0)\n"),
        (own_patience, "PATIENCE_S = 5\n"),
        (counted_elections, "from raftlog.chaos.node_logs import elections\n"),
        (counted_elections, "assert 1 <= wired.elections_since(begin_s) <= 2\n"),
        (counted_elections, "assert (a.leader, a.term) == (b.leader, b.term)\n"),
        (silent_modules, "x = 1\n"),
        (missing_docstrings, "x = 1\n"),
        (missing_docstrings, '"""M."""\ndef f():\n    pass\n'),
        (missing_docstrings, '"""M."""\nclass A:\n    def f(self):\n        return 1\n'),
        (
            missing_docstrings,
            '"""M."""\nclass A:\n    """A."""\n    def f(self):\n        x = 1\n        y = 2\n',
        ),
    ],
)
def test_a_broken_habit_is_noticed(check: Check, text: str) -> None:
    assert list(check(text, ast.parse(text))) != []


def test_what_a_slow_machine_does_not_make_false_passes() -> None:
    text = (
        "took_s = time.monotonic() - begun_s\n"
        "assert took_s >= 5 < other\n"
        "assert rests_s <= time.process_time() - begun_s\n"
        "wait_for(f, 'what', PATIENCE_S)\n"
        "members.wait_for(4, 0.5)\n"
        "assert after.term > before.term\n"
        "assert elections_won > 0\n"
    )
    checks = (bounds_on_wall_time, own_patience, counted_elections)
    assert [said for check in checks for said in check(text, ast.parse(text))] == []


def test_the_longest_lawful_function_passes() -> None:
    text = "def f():\n" + "    x = 1\n" * 68
    assert list(long_functions(text, ast.parse(text))) == []
