"""Write the answers of the dialogues again, after an intended change; git shows the difference.

Run it as `python -m tests.dialogues.rewrite [NAME...]`; without names it takes all of them.
"""

from __future__ import annotations

import sys

from tests.dialogues.stage import SCRIPTS, play


def main(names: list[str]) -> None:
    """Rewrite those whose answers have changed, and name them."""
    for name in names or list(SCRIPTS):
        script = SCRIPTS[name].read_text(encoding="utf-8")
        played = play(script)
        if played != script:
            SCRIPTS[name].write_text(played, encoding="utf-8")
            print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
