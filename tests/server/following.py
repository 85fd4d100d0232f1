"""What follows keys of the key-value store, given the answers to its reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from raftlog.errors import NoQuorum
from raftlog.machines.kv_commands import KeyValue

Follow: TypeAlias = Callable[
    [Callable[[], Awaitable[Sequence[KeyValue]]]], Coroutine[Any, Any, None]
]


def following(
    follow: Follow, answers: list[list[KeyValue] | NoQuorum], then: Callable[[], None]
) -> None:
    """Let it follow the keys until the answers are used up, then do something."""

    async def run() -> None:
        used = asyncio.Event()

        async def read() -> list[KeyValue]:
            if not answers:
                used.set()
                await asyncio.Event().wait()
            answer = answers.pop(0)
            if isinstance(answer, NoQuorum):
                raise answer
            return answer

        task = asyncio.create_task(follow(read))
        async with asyncio.timeout(10):
            await used.wait()
        then()
        task.cancel()

    asyncio.run(run())
