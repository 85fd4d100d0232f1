"""Plant one-line bugs, one at a time, and count those that the fast tests or the simulator notice.

    python -m tests.mutants.run --jobs 2                     all that seed 1 draws, as a table
    python -m tests.mutants.run --random 60 --seed 7         other ones, as many of each part
    python -m tests.mutants.run --only core-0044246a         one again
    python -m tests.mutants.run --first 40 --count 10        ten of them
    python -m tests.mutants.run --resume                     those that have no result yet

Each is planted in a copy of the source tree, never in the tree itself. The cheapest tests come
first: those of the mutated part, also slow ones, then the fast tests that reach it, then some
seeds of the simulator; the first failure ends it. One that is not through after 20 minutes hangs,
which is noticed as well, and told apart. Results are kept in build/mutants.jsonl. The exit status
is 1 if fewer than 95 % of the bugs were noticed in the parts that data rest on. The other parts
are judged by their own tests, and only reported.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutants.mutations import ROOT, Mutant, draw
from tests.mutants.survivors import EQUIVALENT, UNNOTICED, Change

SEED = 1
RANDOM = 260
SEEDS_MAX = 20
NOTICED_SHARE_MIN = 0.95
RESULTS = ROOT / "build/mutants.jsonl"

COPIED = ("raftlog", "connector", "spark_jobs", "tests", "conf", "docs", "scripts")
OWN = "not cluster and not simulation and not soak"
FAST = f"{OWN} and not slow"
REQUIRED = ("core", "machines", "storage", "image", "replica", "multiraft")
"""The parts of which so many bugs must be noticed; the others are reported only."""
OWN_TESTS = {
    "core": ("core", "paper", "dialogues"),
    "machines": ("machines",),
    "storage": ("storage",),
    "image": ("image", "compaction"),
    "replica": ("multiraft",),
    "multiraft": ("multiraft",),
    "client": ("client",),
    "server": ("server",),
    "connector": ("connector",),
    "cli": ("cli",),
}
"""The folders of tests that run first."""
OTHER_TESTS = (
    "machines", "multiraft", "image", "compaction", "golden", "server", "core", "paper",
    "dialogues", "wire", "transport", "storage", "simulation",
)  # fmt: skip
"""The folders of fast tests that reach a required part; those that are not its own run after them.
All others are above or beside what is mutated."""

TEST_S = 60
"""A single test that takes longer hangs: the slowest takes 10 s."""
MUTANT_S = 1200
"""A mutant that is not through by then hangs: all stages take about two minutes."""
MEMORY_BYTES_MAX = 8 << 30
"""An endless loop must not take the machine's memory with it."""


class Outcome(NamedTuple):
    """What became of a mutant. `noticed_by` is empty for a survivor."""

    name: str
    noticed_by: str
    stage: str
    seconds: float


class Stage(NamedTuple):
    """A command that may notice a mutant."""

    name: str
    command: list[str]


def stages(part: str, seeds_max: int) -> list[Stage]:
    """What runs for a mutant of `part`, in this order."""
    own = OWN_TESTS[part]
    found = [Stage("own tests", _pytest(own, OWN))]
    if part in REQUIRED:
        other = tuple(folder for folder in OTHER_TESTS if folder not in own)
        found.append(Stage("other tests", _pytest(other, FAST)))
        found.append(_seeds(seeds_max))
    return found


def _seeds(seeds_max: int) -> Stage:
    return Stage("seeds", [sys.executable, "-m", "tests.mutants.seeds", str(seeds_max)])


def _pytest(folders: tuple[str, ...], markers: str) -> list[str]:
    return [
        sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider",
        "-p", "no:xdist", "-o", f"timeout={TEST_S}", "--hypothesis-seed=0", "-m", markers,
        *(f"tests/{folder}" for folder in folders),
    ]  # fmt: skip


def failing_without_a_bug(parts: Collection[str], seeds_max: int) -> str:
    """What fails in an unchanged copy; it would notice every mutant of these parts. "" if all is
    well."""
    runs = {tuple(stage.command): stage for part in parts for stage in stages(part, seeds_max)[:1]}
    if not set(parts).isdisjoint(REQUIRED):
        runs |= {tuple(stage.command): stage for stage in stages(REQUIRED[0], seeds_max)}
    with _copied_tree() as tree:
        failures = (run_stage(stage, tree, time.monotonic() + MUTANT_S) for stage in runs.values())
        return next(filter(None, failures), "")


def _all_folders() -> tuple[str, ...]:
    own = itertools.chain.from_iterable(OWN_TESTS.values())
    return tuple(dict.fromkeys((*own, *OTHER_TESTS)))


def examine(mutant: Mutant, tree: Path, seeds_max: int, stages_max: int) -> Outcome:
    """Plant the mutant in the copy `tree`, and run the stages until one notices it."""
    started_s = time.monotonic()
    with _planted(mutant, tree):
        for stage in stages(part_of(mutant), seeds_max)[:stages_max]:
            found = run_stage(stage, tree, started_s + MUTANT_S)
            if found:
                break
        else:
            stage = Stage("", [])
    seconds = round(time.monotonic() - started_s, 1)
    return Outcome(mutant.name, found, stage.name, seconds)


def part_of(mutant: Mutant) -> str:
    """The part that it is a mutant of."""
    return mutant.name.partition("-")[0]


@contextmanager
def _planted(mutant: Mutant, tree: Path) -> Iterator[None]:
    """The bug is in the copy. Its time differs, so that no compiled file of the original serves."""
    path = tree / mutant.file
    source, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutant.apply(source), encoding="utf-8")
    os.utime(path, (times.st_atime, times.st_mtime + 10))
    try:
        yield
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def run_stage(stage: Stage, tree: Path, deadline_s: float) -> str:
    """What noticed the mutant; "" if nothing did. The deadline is of the monotonic clock."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "1000",  # in a narrower summary pytest leaves out why a test failed
        "TMPDIR": str(tree / "tmp"),
    }
    process = subprocess.Popen(
        stage.command, cwd=tree, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=_limit_memory,
    )  # fmt: skip
    _running.add(process)
    try:
        said, _ = process.communicate(timeout=max(1.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"hangs: {stage.name}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        _running.discard(process)
        shutil.rmtree(tree / "tmp")
        (tree / "tmp").mkdir()
    return noticed_by(stage, process.returncode, said)


def noticed_by(stage: Stage, status: int, said: str) -> str:
    """What failed, from what the stage said; "" if nothing did."""
    if status == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
    if "Timeout (>" in said or "Timeout >" in said:
        return f"hangs: {failed.group(1) if failed else stage.name}"
    if failed:
        return failed.group(1)
    lines = said.strip().splitlines() or [f"exit status {status}"]
    return lines[-1][:160]


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


@contextmanager
def _copied_tree() -> Iterator[Path]:
    """A copy of the source tree, compiled, in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix="raftlog-mutants-") as folder:
        tree = Path(folder)
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, tree / path.name)
        (tree / "tmp").mkdir()
        # Compile it once, tests as pytest rewrites them included, and see that the copy is used.
        where = "import raftlog; print(raftlog.__file__)"
        _checked([sys.executable, "-m", "compileall", "-q", "raftlog", "tests"], tree)
        used = _checked([sys.executable, "-c", where], tree)
        assert used.startswith(str(tree)), f"{used} would be tested in place of the copy"
        _checked([*_pytest(_all_folders(), OWN), "--collect-only"], tree)
        yield tree


def _checked(command: list[str], tree: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        command, cwd=tree, env=environment, check=True, capture_output=True, text=True
    ).stdout


_running: set[subprocess.Popen[str]] = set()
"""What would go on by itself if this program were ended."""


def examine_all(
    mutants: list[Mutant], jobs: int, seeds_max: int, stages_max: int
) -> Iterator[Outcome]:
    """Examine them in `jobs` copies; outcomes come as they are known."""
    with ExitStack() as stack:
        trees: SimpleQueue[Path] = SimpleQueue()
        for _ in range(jobs):
            trees.put(stack.enter_context(_copied_tree()))

        def in_some_tree(mutant: Mutant) -> Outcome:
            tree = trees.get()
            try:
                return examine(mutant, tree, seeds_max, stages_max)
            finally:
                trees.put(tree)

        pool = ThreadPoolExecutor(jobs)
        try:
            for future in as_completed([pool.submit(in_some_tree, each) for each in mutants]):
                yield future.result()
        finally:
            for process in list(_running):
                os.killpg(process.pid, signal.SIGKILL)
            pool.shutdown(cancel_futures=True)


def row(mutant: Mutant, outcome: Outcome) -> str:
    """A line of the table."""
    before, after = (text.replace("|", "\\|") for text in (mutant.before, mutant.after))
    noticed_by = outcome.noticed_by or _explained(mutant)
    place = f"{mutant.file}:{mutant.line}"
    return (
        f"| {mutant.name} | {place} | `{before}` | `{after}` | {noticed_by} | {outcome.seconds} |"
    )


def change(mutant: Mutant) -> Change:
    """What the mutant is made of."""
    return Change(mutant.file, mutant.function, mutant.before, mutant.after)


def _explained(mutant: Mutant) -> str:
    made_of = change(mutant)
    if made_of in EQUIVALENT:
        return f"equivalent: {EQUIVALENT[made_of]}"
    return f"**survives**: {UNNOTICED.get(made_of, 'not explained')}"


def summary(mutants: list[Mutant], outcomes: dict[str, Outcome]) -> tuple[str, bool]:
    """The figures over all mutants that have an outcome, part by part, and whether those of the
    required parts are good enough."""
    examined = [each for each in mutants if each.name in outcomes]
    lines = [
        "| part | mutants | noticed | by a hang | equivalent | survive |",
        "|---|---|---|---|---|---|",
    ]
    bugs = noticed = 0
    for part, group in itertools.groupby(examined, part_of):
        counts = _counts(list(group), outcomes)
        lines.append(f"| {part} | " + " | ".join(map(str, counts)) + " |")
        if part in REQUIRED:
            bugs += counts.mutants - counts.equivalent
            noticed += counts.noticed
    lines.append(
        f"{len(examined)} of {len(mutants)} mutants examined; "
        f"{noticed} of {bugs} bugs noticed ({noticed / max(bugs, 1):.1%}) in {', '.join(REQUIRED)}"
    )
    return "\n".join(lines), noticed >= NOTICED_SHARE_MIN * bugs


class _Counts(NamedTuple):
    mutants: int
    noticed: int
    hung: int
    equivalent: int
    survive: int


def _counts(mutants: list[Mutant], outcomes: dict[str, Outcome]) -> _Counts:
    noticed = [each for each in mutants if outcomes[each.name].noticed_by]
    hung = sum(outcomes[each.name].noticed_by.startswith("hangs") for each in noticed)
    unnoticed = [each for each in mutants if not outcomes[each.name].noticed_by]
    equivalent = sum(change(each) in EQUIVALENT for each in unnoticed)
    survive = len(unnoticed) - equivalent
    return _Counts(len(mutants), len(noticed), hung, equivalent, survive)


def _read_results() -> dict[str, Outcome]:
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    outcomes = [Outcome(*json.loads(line)) for line in lines]
    return {outcome.name: outcome for outcome in outcomes}


def main() -> int:
    """The command line; the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    arguments = _arguments()
    mutants = draw(arguments.seed, arguments.random)
    outcomes = _read_results()
    chosen = _chosen(mutants, outcomes, arguments)
    if arguments.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` may end it
        for each in chosen:
            print(f"{each.name} {each.file}:{each.line} {each.function}")
            print(f"    - {each.before}\n    + {each.after}")
        return 0
    if chosen == mutants:
        parts = dict.fromkeys(map(part_of, chosen))
        if failing := failing_without_a_bug(parts, arguments.seeds):
            print(f"{failing} fails without any bug")
            return 1
    print("| mutant | place | before | after | noticed by | s |\n|---|---|---|---|---|---|")
    by_name = {each.name: each for each in mutants}
    RESULTS.parent.mkdir(exist_ok=True)
    for outcome in examine_all(chosen, arguments.jobs, arguments.seeds, arguments.stages):
        outcomes[outcome.name] = outcome
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")
        print(row(by_name[outcome.name], outcome), flush=True)
    text, is_enough = summary(mutants, outcomes)
    print(text)
    return 0 if is_enough else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED, help="which mutants are drawn")
    parser.add_argument("--random", type=int, default=RANDOM, help="draw so many, in all parts")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="of the simulator, at most")
    parser.add_argument("--stages", type=int, default=3, help="run only the first ones")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree (default 1)")
    parser.add_argument("--first", type=int, default=0, help="begin with this one, from 0")
    parser.add_argument("--count", type=int, help="examine at most so many")
    parser.add_argument("--only", action="append", help="a mutant's name, or how it begins")
    parser.add_argument("--resume", action="store_true", help="keep the results that there are")
    parser.add_argument("--survivors", action="store_true", help="only those that survived")
    parser.add_argument("--list", action="store_true", help="show them; examine none")
    return parser.parse_args()


def _chosen(
    mutants: list[Mutant], outcomes: dict[str, Outcome], arguments: argparse.Namespace
) -> list[Mutant]:
    chosen = mutants
    if arguments.only:
        chosen = [each for each in chosen if each.name.startswith(tuple(arguments.only))]
    if arguments.resume:
        chosen = [each for each in chosen if each.name not in outcomes]
    if arguments.survivors:
        survived = {each.name for each in outcomes.values() if not each.noticed_by}
        chosen = [each for each in chosen if each.name in survived]
    end = None if arguments.count is None else arguments.first + arguments.count
    return chosen[arguments.first : end]


if __name__ == "__main__":
    sys.exit(main())
