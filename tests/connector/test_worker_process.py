"""Garbage collections in Spark's Python workers are short, and still take what tasks leave."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import gc, json, sys, weakref
from pyspark import SparkFiles
from raftlog.spark.worker_process import FREEZES_MAX, keep_collections_short

class Task:
    def __init__(self):
        self.itself = self  # only a collection takes it

def collected():
    left = weakref.ref(Task())
    gc.collect()
    return left() is None

began = gc.get_freeze_count()  # some Pythons freeze what they begin with
keep_collections_short()
gc.collect()
users = gc.get_freeze_count() - began
SparkFiles._is_running_on_worker = True
keep_collections_short()
keep_collections_short()
frozen, taken = [], []
for _ in range(FREEZES_MAX + 2):
    taken.append(collected())
    frozen.append(gc.get_freeze_count())
    later = [Task() for _ in range(100)]
print(json.dumps({"users": users, "frozen": frozen, "taken": taken}))
"""


def test_what_a_process_has_after_its_first_tasks_is_not_visited_again() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["users"] == 0, "a process of the user's is left as it is"
    assert found["taken"] == [True] * 5
    first, second, third, *rest = found["frozen"]
    assert 10_000 < first < second < third
    assert max(rest) <= third, "later tasks keep nothing out of collections"
