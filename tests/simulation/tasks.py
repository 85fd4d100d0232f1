"""What clients do at the same time, each in its own task: generators that ask nodes and sleep.

A task asks until it is answered, so it never gives up on what it began. `heal` and `rest` let a
simulation come to its end without waiting for what faults have swallowed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from raftlog.core.types import NO_NODE, GroupId, NodeId
from tests.simulation.network import Network
from tests.simulation.node import Failed, Reply, SimulatedNode
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import SECOND, Settings

OLD_HINT_SHARE = 0.15
"""Requests that go to any node, like those of clients whose knowledge of the leader is old; none
once clients are to stop."""

NO_ANSWER = Failed(written=True)

PATIENT_US_MAX = 10 * SECOND
"""So long what takes longer than a request is waited for. A node that was asked may be gone, which
nobody tells a client here."""

RESTING_PACE = 20
"""So many times longer clients think while nodes and groups come back."""


class Sleep(NamedTuple):
    """Do nothing for so long, or until `Tasks.heal`."""

    delay_us: int


class Ask(NamedTuple):
    """Have `action(node, reply)` done at a node; the answer is what it replies, or NO_ANSWER."""

    node: NodeId
    action: Callable[[SimulatedNode, Reply], None]
    patience: int = 1
    """It waits so many times the time of one request, or for `PATIENT_US_MAX` if that is less."""


Task = Generator[Sleep | Ask, Any, Any]


class Tasks:
    """Runs the tasks, until `stop` lets each end once none of its work is open."""

    def __init__(
        self,
        *,
        simulator: Simulator,
        network: Network,
        settings: Settings,
        nodes: dict[NodeId, SimulatedNode],
    ) -> None:
        self.simulator = simulator
        self.settings = settings
        self.random = simulator.random("clients")
        self.stopping = False
        self._network = network
        self._nodes = nodes
        self._tasks: dict[str, Task] = {}
        self._leaders: dict[tuple[str, GroupId], NodeId] = {}
        """Each task's own memory of who leads."""
        self._current = ""
        self._asleep: dict[str, Sleep] = {}
        self._unanswered: dict[str, Callable[[Any], None]] = {}
        """What gives each task that has asked its answer."""
        self._healings = 0
        self._pace = settings.pace

    @property
    def unfinished(self) -> list[str]:
        return list(self._tasks)

    def spawn(self, name: str, task: Task) -> None:
        assert name not in self._tasks, "one task of a name at a time"
        self._tasks[name] = task
        self.simulator.at(0, lambda: self._resume(name, None))

    def stop(self) -> None:
        """Begin nothing new, and end what is open without long waits."""
        self.stopping = True
        self._healings += 1
        self._wake_all()

    def rest(self) -> None:
        """Think longer between two requests, until `work`."""
        self._pace = RESTING_PACE

    def work(self) -> None:
        """Think as little as clients do without faults."""
        self._pace = 1
        self._wake_all()

    def heal(self) -> None:
        """What failed before may succeed now: wake every task, and close the connections, because
        what was asked may have been lost. Each task tries again, and waits as little as at first.
        """
        self._healings += 1
        for answer in self._unanswered.values():
            self.simulator.at(0, lambda answer=answer: answer(NO_ANSWER))
        self._wake_all()

    def _wake_all(self) -> None:
        for name, sleep in self._asleep.items():
            self.simulator.at(0, lambda name=name, sleep=sleep: self._wake(name, sleep))

    def _wake(self, name: str, sleep: Sleep) -> None:
        if self._asleep.get(name) is sleep:
            del self._asleep[name]
            self._resume(name, None)

    def _resume(self, name: str, value: Any) -> None:
        self._current = name
        try:
            step = self._tasks[name].send(value)
        except StopIteration:
            del self._tasks[name]
            return
        if isinstance(step, Sleep):
            self._asleep[name] = step
            self.simulator.at(step.delay_us, lambda: self._wake(name, step))
        else:
            self._ask(name, step)

    def _ask(self, name: str, ask: Ask) -> None:
        answered = False

        def answer(value: Any) -> None:
            nonlocal answered
            if not answered:
                answered = True
                del self._unanswered[name]
                self._resume(name, value)

        self._unanswered[name] = answer
        node = self._nodes.get(ask.node)

        def reply(value: Any) -> None:
            self._network.call(lambda: answer(value))

        if node is not None:  # else it was wiped since it was named, and nobody answers
            self._network.call(lambda: node.serve(lambda: ask.action(node, reply)))
        once_us = self.settings.request_timeout_us
        timeout_us = max(once_us, min(ask.patience * once_us, PATIENT_US_MAX))
        self.simulator.at(timeout_us, lambda: answer(NO_ANSWER))

    # ------------------------------------------------------------ asking leaders

    def ask_leader(
        self,
        group: GroupId,
        action: Callable[[SimulatedNode, Reply], None],
        asked: Callable[[], None] | None = None,
    ) -> Task:
        """Ask until there is an answer, from the leader of that time. The task's value is the
        answer.

        `asked` is called before each try: the answer is to the last one.
        """
        waits, healings = 0, self._healings
        hint = (self._current, group)
        while True:
            to = self._leaders.get(hint, NO_NODE)
            is_known = to in self._nodes
            if not is_known or (not self.stopping and self.random.random() < OLD_HINT_SHARE):
                to = self.any_node()
            if asked is not None:
                asked()
            # As clients do: what takes longer than a request would be asked again for ever.
            answer = yield Ask(to, action, 2 ** min(waits, 4) if self._healings else 1)
            if not isinstance(answer, Failed):
                self._leaders[hint] = to
                return answer
            if answer is NO_ANSWER or answer.leader == to:
                self._leaders.pop(hint, None)
            else:
                self._leaders[hint] = answer.leader
            if healings != self._healings:
                waits, healings = 0, self._healings
            waits += 1
            longest = min(waits, 16) * self.settings.think_us
            if answer.written:
                self.simulator.counts["outcome unknown, sent again"] += 1
                # Longer and longer, or resends could fill every queue for ever.
                longest = max(longest, self.settings.request_timeout_us * 2 ** min(waits, 5) // 8)
            told = not answer.written and answer.leader not in (NO_NODE, to)
            if told and self._healings and waits % 2:
                continue  # as clients do. Two nodes may name each other for a while
            yield Sleep(self.random.randrange(1, longest + 1))

    def any_node(self) -> NodeId:
        return list(self._nodes)[self.random.randrange(len(self._nodes))]

    def think(self) -> Sleep:
        return Sleep(self.random.randrange(1, 2 * self._pace * self.settings.think_us))

    def pause(self, thoughts_max: int) -> Sleep:
        """Between two pieces of work: none where nothing new is begun."""
        thoughts = 0 if self.stopping else self.random.randrange(1, thoughts_max)
        return Sleep(thoughts * self._pace * self.settings.think_us)
