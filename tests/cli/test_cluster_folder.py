"""A cluster's folder: what it records is checked, and only its own nodes count as running."""

from __future__ import annotations

import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli import cluster_folder
from raftlog.cli.down import stop_nodes
from raftlog.core.types import FORMAT_STAMP
from raftlog.errors import DataFolderForeign, DataFolderLocked, FormatUnsupported, InvalidOption
from tests import stores
from tests.stores import holder

OWN_FORMAT = f'format = "{FORMAT_STAMP}"'
ADDRESSES = {1: "127.0.0.1:7401", 2: "127.0.0.1:7402", 10: "127.0.0.1:7403"}


def recorded(folder: Path) -> cluster_folder.ClusterFolder:
    return stores.recorded(folder, ADDRESSES)


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    cluster = recorded(tmp_path / "a" / "b")
    assert cluster_folder.exists(cluster.folder)
    assert cluster_folder.open_folder(cluster.folder) == cluster
    assert list(cluster_folder.open_folder(cluster.folder).addresses) == [1, 2, 10]


def test_a_folder_in_which_a_start_was_killed_before_it_recorded_its_cluster_is_free(
    tmp_path: Path,
) -> None:
    with cluster_folder.only_up_in(tmp_path):
        (tmp_path / "cluster.draft").write_text(OWN_FORMAT, encoding="utf-8")
        (tmp_path / ".cluster.toml.lock").touch()
        (tmp_path / "node-2").mkdir()
    assert recorded(tmp_path).addresses


def test_an_flock_on_the_folder_that_a_reader_can_hold_stops_no_change(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    recorded(tmp_path)
    cluster_folder.forget(tmp_path, 2)
    os.close(held)
    assert cluster_folder.open_folder(tmp_path).removed == (2,)


@pytest.mark.parametrize("name", ["x", "node-3", "node-02", "cluster.toml.bak"])
def test_a_folder_with_other_files_is_foreign(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(DataFolderForeign):
        cluster_folder.new_cluster(tmp_path, addresses=ADDRESSES)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("format = 1", "1"),
        ('format = "0-2020-01-01"', "0-2020-01-01"),
        ('format = ""', "unknown"),
        ("format = []", "unknown"),
        (f'format = "{"9" * 1_000}"', "9" * 64),
    ],
)
def test_another_format_is_rejected_before_anything_else_is_read(
    tmp_path: Path, written: str, found: str
) -> None:
    """Programs from before there were stamps wrote a number, and other keys."""
    cluster = recorded(tmp_path / "c")
    file = cluster.folder / cluster_folder.CLUSTER_FILE
    of_others = file.read_text().replace(OWN_FORMAT, written).replace("removed = []\n", "")
    file.write_text(of_others)
    with pytest.raises(FormatUnsupported, match="new data folders") as caught:
        cluster_folder.open_folder(cluster.folder)
    assert (caught.value.found, caught.value.supported) == (found, FORMAT_STAMP)
    assert file.read_text() == of_others


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OWN_FORMAT, ""),
        (OWN_FORMAT, "format = " + "9" * 5_000),
        ("cluster_id =", "claster_id ="),
        ("[nodes]", "[hosts]"),
        ('2 = "127', 'x = "127'),
        ('2 = "127', f'{"9" * 5_000} = "127'),
        ('2 = "127', f'{2**31} = "127'),
        ("127.0.0.1:7402", "127.0.0.1:" + "9" * 5_000),
        ("removed = []", f"removed = [{2**31}]"),
        pytest.param("removed = []", "removed = " + "[" * 100_000, id="deep"),
        ("127.0.0.1:7402", "127.0.0.1"),
        ("127.0.0.1:7402", "127.0.0.1:99999"),
        ('"127.0.0.1:7402"', "7402"),
        ("[nodes]", "[nodes"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, old: str, new: str) -> None:
    cluster = recorded(tmp_path / "c")
    file = cluster.folder / cluster_folder.CLUSTER_FILE
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InvalidOption, match=r"cluster\.toml") as caught:
        cluster_folder.open_folder(cluster.folder)
    assert len(caught.value.cause) < 1_000


def test_a_node_runs_for_as_long_as_its_process_holds_the_file(tmp_path: Path) -> None:
    cluster = recorded(tmp_path / "c")
    assert cluster.running() == {}
    with holder(cluster.pid_file(2)) as child:
        assert cluster.running() == {2: child.pid}
        with (
            pytest.raises(DataFolderLocked) as refused,
            cluster_folder.holding_pid_file(cluster.pid_file(2), cluster.data(2)),
        ):
            pass
        assert refused.value.holder == str(child.pid)
        child.kill()
        child.wait()
        assert cluster.running() == {}
    with cluster_folder.holding_pid_file(cluster.pid_file(2), cluster.data(2)):
        assert cluster.pid_file(2).read_text() == f"{os.getpid()}\n"


@pytest.mark.slow
def test_a_node_that_starts_waits_for_one_that_was_killed_to_end(tmp_path: Path) -> None:
    file = recorded(tmp_path / "c").pid_file(2)
    with holder(file) as child:
        threading.Timer(0.2, child.kill).start()
        with cluster_folder.holding_pid_file(file, tmp_path, patience_s=PATIENCE_S):
            assert file.read_text() == f"{os.getpid()}\n"


def test_a_live_process_that_does_not_hold_the_file_is_never_stopped(tmp_path: Path) -> None:
    """A node died and its process id went to another program: here, to this test. Who may read the
    file can lock it so, too."""
    cluster = recorded(tmp_path / "c")
    cluster.pid_file(1).write_text(f"{os.getpid()}\n")
    with cluster.pid_file(1).open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        assert cluster.running() == {}
        assert stop_nodes(cluster, timeout_s=1.0) == []


def test_the_kernel_and_not_the_file_says_which_process_is_the_node(tmp_path: Path) -> None:
    cluster = recorded(tmp_path / "c")
    with holder(cluster.pid_file(1)) as child:
        cluster.pid_file(1).write_text(f"{os.getpid()}\n")
        assert cluster.running() == {1: child.pid}
        child.kill()


@pytest.mark.parametrize(
    "name",
    ["", "cluster.toml", "tls", "tls/ca.key", "log", "log/node-1.log", "node-1", "node-1/identity",
     "node-1.pid"],
)  # fmt: skip
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_a_folder_that_another_user_can_write_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    folder = recorded(tmp_path / "c").folder
    path = folder / name
    if not path.exists():
        path.mkdir(parents=True)
    if how == "mode":
        path.chmod(0o770)
    elif os.geteuid() == 0:
        os.chown(path, 65534, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    for use in (
        lambda: cluster_folder.open_folder(folder),
        lambda: cluster_folder.new_cluster(folder, addresses=ADDRESSES),
        lambda: cluster_folder.only_up_in(folder).__enter__(),
    ):
        with pytest.raises(InvalidOption, match=f"{path} (is owned|of .* by others)") as caught:
            use()
        assert f"chown -R {cluster_folder._user(os.geteuid())} {folder}" in caught.value.remedy
    assert not (folder / "up.pid").exists()


def test_a_symbolic_link_in_the_place_of_a_pid_file_is_not_followed(tmp_path: Path) -> None:
    cluster = recorded(tmp_path / "c")
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for file in (cluster.pid_file(1), cluster.folder / "up.pid"):
        file.symlink_to(precious)
        with (
            pytest.raises(OSError, match=file.name),
            cluster_folder.holding_pid_file(file, cluster.folder),
        ):
            pass
    with pytest.raises(OSError, match=r"node-1\.pid"):
        cluster.running()
    assert precious.read_text() == "precious"


@pytest.mark.slow
def test_down_stops_exactly_what_runs(tmp_path: Path) -> None:
    cluster = recorded(tmp_path / "c")
    with holder(cluster.pid_file(1)) as stopped, holder(tmp_path / "elsewhere") as untouched:
        assert stop_nodes(cluster, timeout_s=PATIENCE_S) == [1]
        assert stopped.wait(PATIENCE_S) != 0
        assert untouched.poll() is None
        assert untouched.stdin is not None
        untouched.stdin.close()
        assert untouched.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("text", ["", "x\n", "99999999999999999999\n", "-1\n"])
def test_a_garbled_pid_file_names_no_process(tmp_path: Path, text: str) -> None:
    file = tmp_path / "node-1.pid"
    file.write_text(text)
    assert cluster_folder.running_pid(file) is None


def test_nodes_that_end_at_once_are_all_forgotten(tmp_path: Path) -> None:
    """Each reads the file, and writes it without itself."""
    nodes = range(1, 13)
    addresses = {node: f"127.0.0.1:{7400 + node}" for node in nodes}
    folder = tmp_path / "c"
    stores.recorded(folder, addresses)
    with ThreadPoolExecutor(len(nodes)) as pool:
        gone = [pool.submit(cluster_folder.forget, folder, node) for node in nodes[1:]]
    assert [each.result() for each in gone] == [None] * len(gone)
    left = cluster_folder.open_folder(folder)
    assert (sorted(left.addresses), left.removed) == ([1], tuple(nodes[1:]))
