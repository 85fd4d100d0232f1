"""The other side of `client_process`: a program that does what lines of JSON ask for."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

PAYLOADS = 8
"""How many are used in turn, so that no cache of the disk sees the same block again."""


def serve(client: Any) -> None:
    """Call the method of the client that each line names, with the line's other fields, and print
    the object that it returns. Ends with the standard input."""
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(client, request.pop("call"))(**request)), flush=True)


def one_by_one(count: int, data_bytes: int, operate: Callable[[int], object]) -> dict[str, Any]:
    """The answer of `count` operations of `data_bytes` each, one after the other."""
    samples_ns = []
    began_ns = before_ns = time.perf_counter_ns()
    for number in range(count):
        operate(number)
        now_ns = time.perf_counter_ns()
        samples_ns.append(now_ns - before_ns)
        before_ns = now_ns
    return {**answer(count, count * data_bytes, began_ns), "samples_ns": samples_ns}


def answer(operations: int, data_bytes: int, began_ns: int) -> dict[str, Any]:
    """The answer of what began at this time of `time.perf_counter_ns`, and ends now."""
    seconds = (time.perf_counter_ns() - began_ns) / 1e9
    return {"operations": operations, "data_bytes": data_bytes, "seconds": seconds}
