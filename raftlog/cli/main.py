"""The command `raftlog`: global options, the verbs, and how errors become exit codes.

Exit codes are `raftlog.errors.ExitCode`: 0 done, 1 failed, 2 wrong usage, 3 unavailable (try
again), 4 not found, 5 exists already, 6 data loss, 7 a write that was refused, 8 a node that must
not serve. Also 130 after Ctrl-C, 143 after SIGTERM, and 1 if the reader of our output has gone.
With -o json the last line of standard error is the error as an object:
`raftlog.cli.output.say_error`.
"""

from __future__ import annotations

import atexit
import errno
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from raftlog import __version__
from raftlog.cli import (
    acl,
    bench,
    certs,
    chaos,
    cluster,
    docs,
    doctor,
    down,
    events,
    groups,
    init,
    kv,
    lag,
    login,
    produce,
    quota,
    scrub,
    serve,
    status,
    tail,
    tokens,
    top,
    topic,
    up,
    watermark,
    writers,
)
from raftlog.cli.output import one_line, open_standard_streams, say_error, show_line
from raftlog.cli.session import FLAGS, ServersOption, Session
from raftlog.config import CONFIG_VARIABLE, load
from raftlog.config_ensemble import found_by
from raftlog.crash_dumps import set_core_dumps
from raftlog.errors import ExitCode, OutputUnwritable, PathUnusable, RaftlogError
from raftlog.errors.raftlog_error import Surface
from raftlog.redaction import without_keys

_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""typer's error of arguments that it cannot read. typer exports only the error that is one."""


class _Root(typer.core.TyperGroup):
    """Ends the process with the error of a verb, in the form that the verb's -o asks for."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the arguments before the verb."""
        try:
            return super().make_context(*arguments, **more)
        except _UsageError as error:
            raise _shown(error) from None

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            raise _shown(error) from None
        except RaftlogError as error:
            _end(error, ctx)
        except OSError as error:
            if error.filename is None:  # not about a path: a defect of ours, with its traceback
                raise
            _end(PathUnusable(path=str(error.filename), problem=_reason(error)), ctx)


app = typer.Typer(
    name="raftlog",
    cls=_Root,
    help="A replicated, typed commit log that Spark reads and writes, exactly once.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 unavailable (try again), 4 not found, "
    "5 exists, 6 data loss, 7 write refused, 8 node refused. Every error: `raftlog docs ERRORS`.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # else the line breaks of docstrings are kept
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("init")(init.init)
app.command("serve")(serve.serve)
app.command("down")(down.down)
app.command("certs")(certs.certs)
app.add_typer(tokens.app, name="tokens")
app.add_typer(acl.app, name="acl")
app.add_typer(quota.app, name="quota")
app.command("login")(login.login)
app.command("logout")(login.logout)
app.command("whoami")(login.whoami)
app.command("status")(status.status)
app.command("scrub")(scrub.scrub)
app.add_typer(topic.app, name="topic")
app.add_typer(writers.app, name="writers")
app.add_typer(cluster.app, name="cluster")
app.command("produce")(produce.produce)
app.command("tail")(tail.tail)
app.command("watermark")(watermark.watermark)
app.command("top")(top.top)
app.command("lag")(lag.lag)
app.add_typer(groups.app, name="groups")
app.command("doctor")(doctor.doctor)
app.command("docs")(docs.docs)
app.add_typer(kv.app, name="kv")
app.command("events")(events.events)
app.command("bench")(bench.bench)
app.command("chaos")(chaos.chaos)


def _print_version(wanted: bool) -> None:
    if wanted:
        show_line(f"raftlog {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help=f"TOML file with settings; default: the file that {CONFIG_VARIABLE} names.",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SECTION.KEY=VALUE",
            help="One setting; overrides environment and file. May be repeated.",
            show_default=False,
        ),
    ] = None,
    servers: ServersOption = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,.../PATH",
            help="The ZooKeeper ensemble that knows the nodes, in place of --servers.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """A replicated, typed commit log that Spark reads and writes, exactly once."""
    flags = list(set_ or [])
    found = found_by(servers, zookeeper, FLAGS)
    flags += [f"client.{key}={value}" for key, value in found.items()]
    passed_on = [f"--config={config.resolve()}"] if config is not None else []
    passed_on += [f"--set={flag}" for flag in flags]
    context.obj = Session(settings=load(config, flags), passed_on=tuple(passed_on))


@cache
def command_line() -> Any:
    """All verbs as one click command. It is built once, which takes 50 ms."""
    return typer.main.get_command(app)


def main() -> NoReturn:
    """Run the command line as the whole of this process, and end the process with its code."""
    set_core_dumps(wanted=False)  # a client knows a token; a node goes by its settings
    open_standard_streams()
    RaftlogError.surface = Surface.COMMAND_LINE
    code = int(ExitCode.FAILED)

    def end_process() -> None:
        with suppress(OutputUnwritable, BrokenPipeError):
            sys.stdout.flush()
        os._exit(code)

    # Registered before all others, it runs after them. Threads of grpc and Arrow that still run
    # while the interpreter is torn down may abort the process.
    atexit.register(end_process)
    try:
        try:
            command_line()(prog_name="raftlog")
        finally:
            sys.stdout.flush()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else code
    except RaftlogError as error:  # of the help, or of the last output
        say_error(error)
        code = int(error.exit_code)
    except BrokenPipeError:
        pass
    sys.exit(code)


def _shown(error: Any) -> Any:
    """typer repeats what it cannot read, such as the token in `raftlog login TOKEN`."""
    error.message = one_line(without_keys(error.message))
    return error


def _end(error: RaftlogError, context: typer.Context) -> NoReturn:
    say_error(error, context)
    sys.exit(int(error.exit_code))


def _reason(error: OSError) -> str:
    """Why the operating system refused the path, in words that fit files and folders."""
    match error:
        case FileExistsError():
            return "there is a file where a folder should be"
        case NotADirectoryError():
            return "it is, or lies below, a file where a folder should be"
        case IsADirectoryError():
            return "there is a folder where a file should be"
        case OSError(errno=errno.ELOOP):
            return "it is a symbolic link, which is not followed"
        case _:
            return error.strerror or type(error).__name__
