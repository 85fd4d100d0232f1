"""Every command in an `sh` block of a document is one that exists, with the options it is given.

Nothing is run. A program that is not known here fails: add below how it is checked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.main import command_line
from tests.docs.pages import ROOT, commands

COMMANDS = list(commands())
PYTHONS = ("python", ".venv/bin/python")
KAFKA_TOOLS = ("kcat", "rpk")
"""What reads Kafka. Only the command that follows is one of ours."""


def problem_of(words: list[str]) -> str | None:
    """What does not exist of the command, or None."""
    program, *arguments = words
    if "&&" in words:
        at = words.index("&&")
        return problem_of(words[:at]) or problem_of(words[at + 1 :])
    if program in KAFKA_TOOLS:
        ends = [at for at, word in enumerate(words) if word in ("|", "&&")]
        return problem_of(words[ends[0] + 1 :]) if ends else None
    if program == "raftlog":
        return _problem_of_verb(arguments)
    if program == "make":
        return _problem_of_target(arguments)
    if program in PYTHONS and arguments[0] == "-m":
        return _problem_of_module(arguments[1], arguments[2:])
    if program == "spark-submit":
        while arguments[0].startswith("--"):  # Spark's own, each with a value
            del arguments[:2]
        return _problem_of_script(arguments[0], arguments[1:])
    if program in PYTHONS:
        return _problem_of_script(arguments[0], arguments[1:])
    if program.startswith("scripts/"):
        return None if (ROOT / program).exists() else f"there is no {program}"
    if program == "pip":
        return _problem_of_extra(arguments)
    if program == "git":
        return None  # not ours
    if program == "source":
        return None if arguments == [".venv/bin/activate"] else f"{arguments} is not known"
    return f"{program} is not known here"


def _problem_of_verb(arguments: list[str]) -> str | None:
    command: Any = command_line()
    known = _options(command)
    for word in arguments:
        if word.startswith("-"):
            if word.partition("=")[0] not in known:
                return f"there is no option {word} of {command.name}"
        elif hasattr(command, "commands") and not _is_value(word):
            if word not in command.commands:
                return f"there is no verb {word}"
            command = command.commands[word]
            known |= _options(command)
    return None


def _options(command: Any) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def _is_value(word: str) -> bool:
    """A value of an option before the verb: an address, a file, a setting."""
    return not re.fullmatch(r"[a-z]+", word)


def _problem_of_target(arguments: list[str]) -> str | None:
    targets = re.search(r"^TARGETS := (.*)$", _text("Makefile"), re.MULTILINE)
    assert targets is not None
    target, *variables = arguments
    if target not in targets[1].split():
        return f"there is no target {target}"
    if not (ROOT / "scripts" / f"{target}.sh").exists():
        return f"there is no scripts/{target}.sh"
    for variable in variables:
        name, _, value = variable.partition("=")
        if name == "ARGS":
            flags = [word for word in value.split() if word.startswith("--")]
            if target == "bench" and (problem := _unknown_flag("tests/bench/run.py", flags)):
                return problem
        elif not re.search(rf"^export .*\b{name}\b", _text("Makefile"), re.MULTILINE):
            return f"the Makefile knows no {name}"
    return None


def _problem_of_module(module: str, arguments: list[str]) -> str | None:
    if module == "pytest":
        paths = [word for word in arguments if word.startswith("tests/")]
        missing = [path for path in paths if not (ROOT / path.partition("::")[0]).exists()]
        return f"there is no {missing[0]}" if missing else None
    path = module.replace(".", "/")
    for candidate in (f"{path}.py", f"{path}/__main__.py"):
        if (ROOT / candidate).exists():
            return _unknown_flag(candidate, arguments)
    return f"there is no module {module}"


def _problem_of_script(path: str, arguments: list[str]) -> str | None:
    if not (ROOT / path).exists():
        return f"there is no {path}"
    return _unknown_flag(path, arguments)


def _unknown_flag(path: str, arguments: list[str]) -> str | None:
    """The first flag that the file does not declare."""
    text = _text(path)
    for word in arguments:
        if word.startswith("--") and f'"{word.partition("=")[0]}"' not in text:
            return f"{path} has no {word}"
    return None


def _problem_of_extra(arguments: list[str]) -> str | None:
    extras = re.findall(r'"(\w+)": [A-Z]+[,}]', _text("setup.py"))
    for word in arguments[1:]:
        for extra in re.findall(r"\[(.*)\]", word):
            if not set(extra.split(",")) <= set(extras):
                return f"there is no extra {extra}"
    return None


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_of_the_documents_exist() -> None:
    problems = {(each.page, each.line): problem_of(each.words) for each in COMMANDS}
    assert {place: problem for place, problem in problems.items() if problem} == {}


def test_commands_are_found_in_the_pages_that_have_some() -> None:
    pages = {Path(command.page).name for command in COMMANDS}
    assert {"README.md", "CONTRIBUTING.md", "OPERATIONS.md", "SPARK.md", "TESTING.md"} <= pages


@pytest.mark.parametrize(
    "words",
    [
        ["raftlog", "destroy"],
        ["raftlog", "up", "--nods", "3"],
        ["raftlog", "--servers", "localhost:1", "topic", "destroy"],
        ["make", "coffee"],
        ["make", "simulate", "SEED=3"],
        ["make", "bench", "ARGS=--onyl log"],
        ["python", "-m", "tests.simulation.nothing"],
        ["python", "-m", "tests.simulation.run", "--sed", "1"],
        ["python", "-m", "pytest", "tests/cluster/test_nothing.py"],
        ["spark-submit", "spark_jobs/pipeline.py", "--available-later"],
        ["spark-submit", "--packages", "a:b:1", "spark_jobs/kafka_export.py"],
        ["scripts/nothing.sh"],
        ["pip", "install", ".[servers]"],
        ["rm", "-r", "x"],
    ],
    ids=" ".join,
)
def test_what_does_not_exist_is_noticed(words: list[str]) -> None:
    assert problem_of(words) is not None
