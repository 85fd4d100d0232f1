"""What a seed draws: the same each time, every class once in a round, within bounds."""

from __future__ import annotations

from itertools import islice

from raftlog.chaos.schedule import ALONE, DEEDS, LASTS_S, Kind, Plan, plans


def drawn(seed: int, kinds: tuple[Kind, ...] = tuple(Kind), count: int = 200) -> list[Plan]:
    return list(islice(plans(seed, kinds), count))


def test_a_seed_draws_the_same_each_time_and_another_seed_another() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_each_round_takes_every_class_once() -> None:
    for seed in range(20):
        _takes_every_class_once(seed)


def _takes_every_class_once(seed: int) -> None:
    kinds = [fault.kind for plan in drawn(seed) for fault in plan.faults]
    for begin in range(0, len(kinds) - len(Kind), len(Kind)):
        assert set(kinds[begin : begin + len(Kind)]) == set(Kind)


def test_two_faults_at_once_occur_but_never_beside_one_of_all_nodes() -> None:
    pairs = [plan for seed in range(10) for plan in drawn(seed) if len(plan.faults) == 2]
    assert len(pairs) > 100
    assert not ALONE & {fault.kind for plan in pairs for fault in plan.faults}


def test_one_operator_does_one_thing_at_a_time_also_beside_a_fault() -> None:
    pairs = [
        {fault.kind for fault in plan.faults}
        for seed in range(20)
        for plan in drawn(seed)
        if len(plan.faults) == 2
    ]
    assert not any(pair <= DEEDS for pair in pairs)
    for deed in DEEDS:
        assert any(deed in pair for pair in pairs)


def test_a_full_disk_is_the_first_of_two_faults_because_its_node_is_fixed() -> None:
    kinds = [[fault.kind for fault in plan.faults] for seed in range(20) for plan in drawn(seed)]
    assert any(Kind.FULL_DISK in each and len(each) == 2 for each in kinds)
    assert all(each.index(Kind.FULL_DISK) == 0 for each in kinds if Kind.FULL_DISK in each)


def test_every_fault_lasts_as_long_as_its_class_may() -> None:
    for fault in (fault for plan in drawn(3) for fault in plan.faults):
        least, most = LASTS_S[fault.kind]
        assert least <= fault.seconds <= most
        assert 0 <= fault.draw < 1


def test_only_the_classes_asked_for_are_drawn() -> None:
    kinds = {fault.kind for plan in drawn(4, (Kind.KILL, Kind.CUT)) for fault in plan.faults}
    assert kinds == {Kind.KILL, Kind.CUT}
