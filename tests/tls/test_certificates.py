"""Certificates in files: made, read, read again when changed, and kept while new ones are bad."""

from __future__ import annotations

import itertools
import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from pydantic import SecretBytes

from raftlog import changing_files
from raftlog.certificates import make_certificates
from raftlog.changing_files import replace_whole
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config import load
from raftlog.config_tls import PemFiles
from raftlog.errors import InvalidOption
from raftlog.tls import _FILE_BYTES_MAX, Certificates, open_channel, peer_name

OPTIONS = PemFiles("the ca", "the cert", "the key")


def made(folder: Path, cluster_id: str = "c") -> PemFiles:
    hosts = {1: "127.0.0.1", 2: "node2.example.com", 3: "[::1]"}
    make_certificates(folder, cluster_id=cluster_id, hosts=hosts, days=5)
    return files_of(folder, "node-1")


def files_of(folder: Path, stem: str) -> PemFiles:
    return PemFiles(
        str(folder / "ca.pem"), str(folder / f"{stem}.pem"), str(folder / f"{stem}.key")
    )


def names(folder: Path, stem: str) -> list[str]:
    certificate = x509.load_pem_x509_certificate((folder / f"{stem}.pem").read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in found]


def test_a_node_s_certificate_names_the_node_the_cluster_and_its_hosts(tmp_path: Path) -> None:
    made(tmp_path)
    assert names(tmp_path, "node-1") == [peer_name("c", 1), "127.0.0.1", "localhost"]
    assert names(tmp_path, "node-2") == [peer_name("c", 2), "node2.example.com"]
    assert names(tmp_path, "node-3") == [peer_name("c", 3), "::1", "localhost", "127.0.0.1"]


def test_only_their_owner_can_read_what_was_made(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    made(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert {each.suffix for each in folder.iterdir()} == {".pem", ".key"}, "no drafts are left"


def test_the_authority_stays_and_what_it_signs_is_new(tmp_path: Path) -> None:
    made(tmp_path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    made(tmp_path)
    same = {name for name, text in before.items() if (tmp_path / name).read_bytes() == text}
    assert same == {"ca.pem", "ca.key"}


@pytest.mark.parametrize("lost", ["ca.pem", "ca.key"])
def test_half_an_authority_is_not_replaced(tmp_path: Path, lost: str) -> None:
    made(tmp_path)
    (tmp_path / lost).unlink()
    with pytest.raises(InvalidOption, match=r"Bring ca\.pem and ca\.key back"):
        made(tmp_path)
    assert not (tmp_path / lost).exists()


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the time pass after which files are looked at again."""
    now_s = [0.0]
    monkeypatch.setattr(changing_files.time, "monotonic", lambda: now_s[0])

    def passes() -> None:
        now_s[0] += 1.0

    return passes


def test_files_are_read_again_when_they_changed(
    tmp_path: Path, passing: Callable[[], None]
) -> None:
    certificates = Certificates(made(tmp_path), OPTIONS)
    first = certificates.current()
    passing()
    assert certificates.current() is first
    made(tmp_path)
    assert certificates.current() is first, "it does not look at every call"
    passing()
    second = certificates.current()
    assert second.cert != first.cert
    assert second.cert == (tmp_path / "node-1.pem").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["node-1.key", "node-1.pem", "ca.pem"])
@pytest.mark.parametrize(
    "content", [b"nothing", b"", None, b"\xff\0", b"-----BEGIN CERTIFICATE-----\nAA\n"]
)
def test_later_files_that_cannot_be_used_change_nothing_and_are_told_once(
    tmp_path: Path, passing: Callable[[], None], bad: str, content: bytes | None
) -> None:
    problems: list[str] = []
    certificates = Certificates(made(tmp_path), OPTIONS, problems.append)
    first = certificates.current()
    whole = (tmp_path / bad).read_bytes()
    (tmp_path / bad).unlink()
    if content is not None:
        (tmp_path / bad).write_bytes(content)
    for _ in range(3):
        passing()
        assert certificates.current() is first
    (problem,) = problems
    assert str(tmp_path / bad) in problem
    (tmp_path / bad).write_bytes(whole)
    passing()
    assert certificates.current() == first
    assert len(problems) == 1


def test_who_starts_while_a_certificate_is_replaced_waits_for_its_key(tmp_path: Path) -> None:
    files = made(tmp_path)
    made(tmp_path / "next")
    next_key = (tmp_path / "next" / "node-1.key").read_bytes()
    replace_whole(Path(files.cert), (tmp_path / "next" / "node-1.pem").read_bytes())
    replacing = threading.Timer(0.3, replace_whole, (Path(files.key), next_key))
    replacing.start()
    assert Certificates(files, OPTIONS).current().key == SecretBytes(next_key)
    replacing.join()


def test_certificates_that_are_replaced_all_the_time_are_read_as_pairs(tmp_path: Path) -> None:
    files = made(tmp_path)
    made(tmp_path / "next")
    stop = threading.Event()

    def replace_again_and_again() -> None:
        former = {file: Path(file).read_bytes() for file in (files.key, files.cert)}
        following = files_of(tmp_path / "next", "node-1")
        after = {files.key: Path(following.key), files.cert: Path(following.cert)}
        for turn in itertools.count():
            for file in (files.key, files.cert):
                replace_whole(Path(file), former[file] if turn % 2 else after[file].read_bytes())
            if stop.wait(0.02):  # twice within one read would be seen as never
                return

    replacing = threading.Thread(target=replace_again_and_again)
    replacing.start()
    try:
        for _ in range(50):
            pem = Certificates(files, OPTIONS).current()
            key = serialization.load_pem_private_key(pem.key.get_secret_value(), None)
            assert x509.load_pem_x509_certificate(pem.cert).public_key() == key.public_key()
    finally:
        stop.set()
        replacing.join()


def test_a_certificate_is_not_used_with_the_former_key(
    tmp_path: Path, passing: Callable[[], None]
) -> None:
    """Who replaces the two does so one after the other."""
    old, new = tmp_path / "old", tmp_path / "new"
    files = made(old)
    made(new)
    certificates = Certificates(files, OPTIONS)
    first = certificates.current()
    (new / "node-1.pem").replace(old / "node-1.pem")
    passing()
    assert certificates.current() is first
    (new / "node-1.key").replace(old / "node-1.key")
    passing()
    key = SecretBytes((old / "node-1.key").read_bytes())
    assert certificates.current().key == key != first.key


@pytest.mark.parametrize(
    ("lost", "option"),
    [("ca.pem", "the ca"), ("node-1.pem", "the cert"), ("node-1.key", "the key")],
)
def test_a_file_that_is_not_there_is_named_with_its_option(
    tmp_path: Path, lost: str, option: str
) -> None:
    files = made(tmp_path)
    (tmp_path / lost).unlink()
    with pytest.raises(InvalidOption) as caught:
        Certificates(files, OPTIONS)
    assert caught.value.option == option
    assert f"{lost}: No such file or directory" in caught.value.cause


@pytest.mark.parametrize("which", range(3))
def test_what_was_given_in_place_of_a_path_is_not_shown(tmp_path: Path, which: int) -> None:
    files = made(tmp_path)
    text = Path(files.key).read_text()
    for mistaken in (text, text.replace("\n", " "), "\n".join(text.splitlines()[1:-1]), "a\0b"):
        given = PemFiles(*(mistaken if at == which else file for at, file in enumerate(files)))
        with pytest.raises(InvalidOption, match=OPTIONS[which]) as caught:
            Certificates(given, OPTIONS)
        assert "no path" in str(caught.value)
        assert text.splitlines()[1] not in str(caught.value)


def test_a_private_key_is_never_shown(tmp_path: Path) -> None:
    files = made(tmp_path)
    pem = Certificates(files, OPTIONS).current()
    key = Path(files.key).read_bytes()
    assert pem.key == SecretBytes(key)
    assert repr(key) not in f"{pem!r} {pem}"


@pytest.mark.parametrize(
    ("flags", "option"),
    [
        (["tls.cert_file=a"], "tls.cert_file"),
        (["tls.cert_file=a", "tls.key_file=b"], "tls.cert_file"),
        (["tls.ca_file=a"], "tls.ca_file"),
        (["client.tls_cert_file=a"], "client.tls_cert_file"),
        (["client.tls_key_file=a"], "client.tls_key_file"),
        (["client.tls_cert_file=a", "client.tls_key_file=b"], "client.tls_cert_file"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(flags: list[str], option: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        load(flags=flags)
    assert caught.value.option == option


def test_one_file_of_settings_serves_all_nodes() -> None:
    settings = load(
        flags=["tls.cert_file=/a/node-{node}.pem", "tls.key_file=/a/{node}.key", "tls.ca_file=/ca"]
    )
    assert settings.tls.files_of(7) == PemFiles("/ca", "/a/node-7.pem", "/a/7.key")
    assert load().tls.files_of(7) is None


@pytest.mark.parametrize("which", range(3))
def test_only_regular_files_of_bounded_length_are_read(tmp_path: Path, which: int) -> None:
    """An option may name a device without end, or a FIFO that nobody writes."""
    files = made(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "long").write_bytes(b"\n" * _FILE_BYTES_MAX + Path(files[which]).read_bytes())
    unusable = {
        "/dev/zero": "not a regular file",
        str(tmp_path / "fifo"): "not a regular file",
        str(tmp_path): "Is a directory",
        str(tmp_path / "long"): f"more than {_FILE_BYTES_MAX} bytes",
    }
    for path, problem in unusable.items():
        given = PemFiles(*(path if n == which else each for n, each in enumerate(files)))
        with pytest.raises(InvalidOption, match=problem) as rejected:
            Certificates(given, OPTIONS)
        assert OPTIONS[which] in str(rejected.value)


def test_authorities_with_comments_in_any_script_are_read(tmp_path: Path) -> None:
    """As the bundles of operating systems have them."""
    files = made(tmp_path)
    ca = Path(files.ca)
    ca.write_bytes("# T\u00dcRKTRUST\n".encode() + ca.read_bytes())
    assert Certificates(files, OPTIONS).current().ca == ca.read_bytes()


@pytest.mark.slow  # for as long as names are looked up
def test_no_host_is_taken_for_a_way_of_grpcs_to_reach_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """grpc takes `unix:7401` for a socket in the working directory. Addresses may come from an
    option of Spark."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("7401")
        listening.listen()
        listening.setblocking(False)
        failed = threading.Event()

        def changed(state: grpc.ChannelConnectivity) -> None:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                failed.set()

        with open_channel("unix:7401", None, ()) as channel:
            channel.subscribe(changed, try_to_connect=True)
            assert failed.wait(PATIENCE_S)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_draft_has_a_name_that_nothing_else_can_have_taken(tmp_path: Path) -> None:
    """In a folder that others may write, one with a known name could be theirs, or a link."""
    file, victim = tmp_path / "tokens.json", tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f".{file.name}.{os.getpid()}").symlink_to(victim)
    before = set(tmp_path.iterdir())
    replace_whole(file, b"{}")
    assert (file.read_bytes(), victim.read_text()) == (b"{}", "kept")
    assert set(tmp_path.iterdir()) == before | {file}
    with pytest.raises(IsADirectoryError):
        replace_whole(tmp_path, b"{}")
    assert set(tmp_path.iterdir()) == before | {file}, "and none is left"
