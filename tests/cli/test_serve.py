"""What a node that joins records of its cluster, which a real controller without replicas tells."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.cli.cluster_folder import (
    CLUSTER_FILE,
    ClusterFolder,
    forget,
    new_cluster,
    open_folder,
    record,
)
from raftlog.cli.serve import joined_cluster
from raftlog.cli.session import Session
from raftlog.config import ClientSettings, Settings
from raftlog.core.types import FORMAT_STAMP, NodeId
from raftlog.errors import (
    DataFolderForeign,
    InvalidOption,
    NodeRemoved,
    NodeUnknown,
    StoreMissing,
)
from raftlog.storage.folder import Identity, read_identity
from raftlog.storage.posix import PosixFileSystem
from tests.client.members_scene import FOUNDERS, MembersScene, scene
from tests.stores import founders


@pytest.fixture
def cluster() -> Iterator[MembersScene]:
    """Three founders; nodes 4 and 5 were added, and 5 has come."""
    with scene(5) as found, found.members() as members:
        for node in (4, 5):
            members.add(node, found.addresses[NodeId(node)])
        found.come(5)
        yield found


def joined(cluster: MembersScene, folder: Path, node: int) -> ClusterFolder:
    client = ClientSettings(bootstrap_servers=cluster.servers)
    session = Session(settings=Settings(client=client), passed_on=())
    found = joined_cluster(folder, node, session)
    assert open_folder(folder) == found, "it is recorded"
    return found


def store_of(cluster: ClusterFolder, node: int) -> Identity:
    found = read_identity(PosixFileSystem(cluster.data(node)))
    assert found is not None
    return found


def test_a_node_that_joins_makes_its_store_with_who_founded_the_cluster(
    cluster: MembersScene, tmp_path: Path
) -> None:
    """Not who was there when it came: those are the controller's first voters."""
    four = joined(cluster, tmp_path / "4", 4)
    assert sorted(four.addresses) == [1, 2, 3, 4, 5]
    made = store_of(four, 4)
    assert (made.cluster_id, made.founders) == (four.cluster_id, founders(FOUNDERS))
    assert made.first_voters == ()
    assert joined(cluster, tmp_path / "4", 4) == four
    assert store_of(four, 4) == made


def test_a_join_that_was_ended_before_it_recorded_the_cluster_keeps_its_store(
    cluster: MembersScene, tmp_path: Path
) -> None:
    four = joined(cluster, tmp_path / "4", 4)
    made = store_of(four, 4)
    (tmp_path / "4" / CLUSTER_FILE).unlink()
    assert store_of(joined(cluster, tmp_path / "4", 4), 4) == made


@pytest.mark.parametrize("node", [1, 5], ids=["founder", "added"])
def test_a_node_that_has_come_before_gets_no_other_store(
    cluster: MembersScene, tmp_path: Path, node: int
) -> None:
    """A wiped one has forgotten its votes."""
    with pytest.raises(StoreMissing, match=f"no store of node {node}"):
        joined(cluster, tmp_path / "wiped", node)
    assert not (tmp_path / "wiped" / CLUSTER_FILE).exists()
    assert not (tmp_path / "wiped" / f"node-{node}").exists()


def test_once_the_folder_names_the_node_join_asks_nothing_and_makes_no_store(
    cluster: MembersScene, tmp_path: Path
) -> None:
    four = joined(cluster, tmp_path / "4", 4)
    shutil.rmtree(four.data(4))
    nowhere = Session(settings=Settings(), passed_on=())
    assert joined_cluster(tmp_path / "4", 4, nowhere) == four
    assert not four.data(4).exists()


def test_a_node_that_joins_knows_of_no_observer_but_those_that_it_pulls_from(
    tmp_path: Path,
) -> None:
    """Without the controller's log it would follow any of them as a leader."""
    with scene(6) as cluster, cluster.members() as members:
        four, five, six, seven = (NodeId(node) for node in (4, 5, 6, 7))
        members.add(four, cluster.addresses[four], observer=True)
        cluster.come(four)
        members.add(five, cluster.addresses[five])
        members.add(six, cluster.addresses[six], observer=True, parents=(four,))
        members.add(seven, "127.0.0.1:1", observer=True)
        voter = joined(cluster, tmp_path / "5", five)
        assert sorted(voter.addresses) == [1, 2, 3, 5]
        observer = joined(cluster, tmp_path / "6", six)
        assert sorted(observer.addresses) == [1, 2, 3, 4, 5, 6]


def test_who_was_not_added_or_has_a_folder_of_another_cluster_joins_nothing(
    cluster: MembersScene, tmp_path: Path
) -> None:
    with pytest.raises(NodeUnknown):
        joined(cluster, tmp_path / "none", 9)
    with cluster.members() as members:
        assert list(members.remove(5, timeout_s=5.0)) == []
    with pytest.raises(NodeRemoved):
        joined(cluster, tmp_path / "none", 5)
    other = new_cluster(tmp_path / "other", addresses={9: cluster.addresses[NodeId(4)]})
    record(replace(other, cluster_id="another"))
    with pytest.raises(DataFolderForeign):
        joined(cluster, tmp_path / "other", 4)


@pytest.mark.parametrize(
    ("removed", "problem"),
    [
        ("removed = [5, 5]", "removed names a node twice"),
        ("removed = [0, 1]", "removed is no list of nodes"),
        ("removed = [true]", "removed is no list of nodes"),
        ('removed = ["4"]', "removed is no list of nodes"),
        ("removed = 4", "removed is no list of nodes"),
        ("", "removed is no list of nodes"),
    ],
)
def test_removed_nodes_that_are_no_different_nodes_are_refused(
    tmp_path: Path, removed: str, problem: str
) -> None:
    lines = (f'format = "{FORMAT_STAMP}"', 'cluster_id = "c"', removed, "[nodes]", '4 = "h:1"')
    (tmp_path / CLUSTER_FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidOption, match=problem):
        open_folder(tmp_path)


def test_a_folder_is_that_of_a_removed_node_only_if_it_was_recorded_so(
    cluster: MembersScene, tmp_path: Path
) -> None:
    """One that was copied and renamed is none: what is in it says whose it is."""
    own = joined(cluster, tmp_path / "c", 4)
    with cluster.members() as members:
        members.add(6, "127.0.0.1:1")
    assert 6 in joined(cluster, tmp_path / "c", 6).addresses
    forget(own.folder, 4)
    assert open_folder(own.folder).removed == (4,)
    with pytest.raises(NodeRemoved):
        joined(cluster, tmp_path / "c", 4)
