"""`--watch` shows what it finds again and again, also where nobody has a terminal."""

from __future__ import annotations

import json

import pytest
from rich.table import Table

from raftlog.cli.output import Format, make_table
from raftlog.cli.watching import watch


@pytest.mark.parametrize("output", Format)
def test_each_look_is_written_to_a_pipe_at_once(
    output: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[str] = []

    def look() -> int:
        written.append(capsys.readouterr().out)
        if len(written) == 4:
            raise KeyboardInterrupt
        return len(written)

    def table(number: int) -> Table:
        return make_table(["NUMBER"], [[number]])

    with pytest.raises(KeyboardInterrupt):
        watch(look, as_json=lambda n: n, as_table=table, output=output, interval_s=0.001)
    assert written[0] == ""
    for number, text in enumerate(written[1:], 1):
        shown = json.loads(text) if output is Format.JSON else int(text.split()[-1])
        assert shown == number
