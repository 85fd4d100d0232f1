"""A store of keys whose answers are known, for what looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from raftlog.errors import NoQuorum
from raftlog.machines.kv_commands import KeyValue

Look = Callable[[Callable[[], Awaitable[Sequence[KeyValue]]]], Awaitable[None]]


def looking(look: Look, answers: Sequence[list[KeyValue] | NoQuorum]) -> None:
    """Let it look once for each answer."""

    async def run() -> None:
        for answer in answers:

            async def read(answer: list[KeyValue] | NoQuorum = answer) -> list[KeyValue]:
                if isinstance(answer, NoQuorum):
                    raise answer
                return answer

            await look(read)

    asyncio.run(run())
