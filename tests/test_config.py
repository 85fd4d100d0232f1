"""The configuration: every number once, from any source, and nothing misspelt is ever ignored."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from raftlog import config
from raftlog.config_problems import NOT_ABOVE
from raftlog.core.types import RaftTiming
from raftlog.errors import ExitCode, InvalidOption
from raftlog.machines.limits import TopicLimits
from raftlog.storage.limits import LogLimits

ROOT = Path(__file__).resolve().parents[1]


def refusal(file: Path | None = None, flags: tuple[str, ...] = ()) -> InvalidOption:
    with pytest.raises(InvalidOption) as caught:
        config.load(file, flags)
    return caught.value


def write(folder: Path, text: str) -> Path:
    file = folder / "raftlog.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_sample_file_is_what_the_generator_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "raftlog.config"], cwd=ROOT, capture_output=True, check=True
    )
    assert (ROOT / "conf" / "raftlog.toml").read_bytes() == printed.stdout


def test_sample_file_holds_every_key_with_its_default() -> None:
    file = ROOT / "conf" / "raftlog.toml"
    assert config.load(file) == config.Settings()
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    assert {name: set(keys) for name, keys in table.items()} == {
        name: set(section.model_fields) for name, section in config.SECTIONS.items()
    }


def test_sections_are_exactly_the_fields_of_settings() -> None:
    assert list(config.SECTIONS) == list(config.Settings.model_fields)


def test_every_key_says_why_it_is_there() -> None:
    for name, section in config.SECTIONS.items():
        for key, field in section.model_fields.items():
            assert field.description, f"{name}.{key}"


def test_defaults_agree_with_the_cores_own() -> None:
    assert config.Settings().raft.timing() == RaftTiming()


def test_defaults_agree_with_storages_own() -> None:
    storage, limits = config.Settings().storage, LogLimits()
    for field in dataclasses.fields(LogLimits):
        assert getattr(storage, field.name) == getattr(limits, field.name), field.name


def test_no_setting_decides_what_is_applied() -> None:
    """Two nodes with different bounds would apply one log and get two states."""
    bounds = {field.name for field in dataclasses.fields(TopicLimits)}
    for section in config.SECTIONS.values():
        assert not bounds & section.model_fields.keys()


@pytest.mark.parametrize("tick_s", [0.01, 0.02, 0.03, 0.05, 0.1])
def test_ticks_never_make_a_time_shorter_than_asked(tick_s: float) -> None:
    raft = config.RaftSettings(tick_interval_s=tick_s)
    timing = raft.timing()
    for seconds, ticks in (
        (raft.election_timeout_min_s, timing.election_ticks_min),
        (raft.heartbeat_interval_s, timing.heartbeat_ticks),
        (raft.leader_lost_jitter_max_s, timing.leader_lost_jitter_ticks),
        (raft.resend_timeout_s, timing.resend_ticks),
        (raft.quiesce_after_s, timing.quiesce_after_ticks),
        (raft.quiesce_refresh_s, raft.quiesce_refresh_ticks()),
    ):
        assert seconds - 1e-9 <= ticks * tick_s < seconds + tick_s + 1e-9


def test_flags_go_before_environment_and_environment_before_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[up]\nnodes = 1\nport = 8001\nstop_timeout_s = 7\n[raft]\nresend_timeout_s = 0.7\n"
    file = write(tmp_path, text)
    monkeypatch.setenv("RAFTLOG_UP__NODES", "5")
    monkeypatch.setenv("RAFTLOG_UP__PORT", "8005")
    settings = config.load(file, ["up.nodes=7"])
    assert (settings.up.nodes, settings.up.port) == (7, 8005)
    assert (settings.up.stop_timeout_s, settings.raft.resend_timeout_s) == (7.0, 0.7)
    assert settings.up.ready_timeout_s == config.UpSettings().ready_timeout_s


def test_environment_variable_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(write(tmp_path, "[up]\nnodes = 5\n")))
    assert config.load().up.nodes == 5
    other = tmp_path / "other.toml"
    other.write_text("", encoding="utf-8")
    assert config.load(other).up.nodes == 3


def test_settings_ignore_the_environment_unless_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTLOG_UP__NODES", "5")
    assert config.Settings().up.nodes == 3


def test_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nowhere.toml")
    assert "nowhere.toml" in error.cause
    assert error.exit_code is ExitCode.USAGE


def test_file_that_is_not_toml_is_an_error_with_the_line(tmp_path: Path) -> None:
    assert "line 1" in refusal(write(tmp_path, "nodes = = 3")).cause


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5_000], ids=["deep", "long"])
def test_a_value_that_cannot_be_read_is_an_error_that_names_the_file(
    tmp_path: Path, value: str
) -> None:
    assert "raftlog.toml" in refusal(write(tmp_path, f"nodes = {value}")).cause


def test_misspelt_key_in_a_file_gets_the_nearest_name(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "[raft]\nelection_timout_min_s = 2\n"))
    assert error.option == "raft.election_timout_min_s"
    assert "Did you mean raft.election_timeout_min_s?" in error.remedy


@pytest.mark.parametrize("text", ["[rift]\n", "[rift]\nx = 1\n", "nodes = 3\n", "raft = 1\n"])
def test_unknown_section_or_key_outside_a_section_is_an_error(tmp_path: Path, text: str) -> None:
    refusal(write(tmp_path, text))


def test_misspelt_variable_gets_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTLOG_UP__NODE", "5")
    error = refusal()
    assert error.option == "RAFTLOG_UP__NODE"
    assert "Did you mean RAFTLOG_UP__NODES?" in error.remedy


@pytest.mark.parametrize("name", ["RAFTLOG_NODES", "RAFTLOG_UP", "RAFTLOG_UP_NODES"])
def test_variable_that_names_no_key_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "5")
    assert refusal().option == name


@pytest.mark.parametrize("flag", ["up.nods=3", "nodes=3", "up.nodes", "=", ".=1", "rift.x=1"])
def test_flag_that_names_no_key_is_an_error(flag: str) -> None:
    refusal(flags=(flag,))


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("up.nodes=8", "is 8, from --set. Allowed: A count; at least 1, at most 7."),
        ("up.nodes=three", "is a text that is not allowed, from --set. Allowed: A count;"),
        ("raft.election_timeout_min_s=inf", "is inf, from --set. Allowed: Seconds;"),
        ("raft.election_timeout_min_s=nan", "is nan, from --set. Allowed: Seconds;"),
        ("client.compression=gzip", "from --set. Allowed: One of lz4, zstd, none."),
        ("client.request_timeout_s=0", "is 0, from --set. Allowed: Seconds; above 0,"),
    ],
)
def test_value_out_of_bounds_names_the_key_what_was_given_and_what_is_allowed(
    flag: str, part: str
) -> None:
    error = refusal(flags=(flag,))
    assert error.option == flag.partition("=")[0]
    assert part in str(error)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (
            'bootstrap_servers = ["a:1", "b:2"]',
            "'client.bootstrap_servers' is a list, from {file}. Allowed: One text.",
        ),
        ('bootstrap_servers = { a = "b:2" }', "is a table, from {file}. Allowed: One text."),
        ("bootstrap_servers = true", "is true or false, from {file}. Allowed: One text."),
        ("bootstrap_servers = 7401", "is 7401, from {file}. Allowed: One text."),
        ("request_timeout_s = [1]", "is a list, from {file}. Allowed: Seconds; above 0,"),
        ("request_timeout_s = 2026-01-31", "is a date or a time, from {file}. Allowed: Seconds;"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_key_the_kind_and_what_is_allowed(
    tmp_path: Path, line: str, part: str
) -> None:
    file = write(tmp_path, f"[client]\n{line}\n")
    assert part.format(file=file) in str(refusal(file))


def test_a_value_out_of_bounds_is_named_with_the_place_that_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "[up]\nnodes = 8\n")
    assert refusal(file).problem == f"is 8, from {file}"
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(file))
    assert refusal().problem == f"is 8, from {file}"
    monkeypatch.setenv("RAFTLOG_UP__NODES", "9")
    assert refusal().problem == "is 9, from the variable RAFTLOG_UP__NODES"
    assert refusal(flags=("up.nodes=10",)).problem == "is 10, from --set"


@pytest.mark.parametrize(
    ("flags", "both"),
    [
        (
            ("raft.heartbeat_interval_s=0.8",),
            ("raft.heartbeat_interval_s", "0.8", "raft.election_timeout_min_s", "1.0"),
        ),
        (
            ("client.retry_delay_min_s=2",),
            ("client.retry_delay_min_s", "2.0", "client.retry_delay_max_s", "0.5"),
        ),
        (
            ("server.entry_bytes_max=1048576",),
            ("client.batch_bytes", "server.entry_bytes_max", "1048576"),
        ),
        (("up.port=65534",), ("up.port", "65534", "up.nodes", "3")),
    ],
)
def test_contradiction_names_both_keys_and_both_values(
    flags: tuple[str, ...], both: tuple[str, ...]
) -> None:
    error = refusal(flags=flags)
    for part in both:
        assert part in str(error)


def test_all_contradictions_are_told_at_once_with_the_values_that_end_them() -> None:
    """Also one that appears only when another value is lowered to what it may be."""
    error = refusal(flags=("storage.segment_bytes_max=1048576",))
    assert error.option == "client.batch_bytes"
    assert "'server.entry_bytes_max' is 8388608" in error.problem
    lowered = re.findall(r"([a-z]+\.[a-z_]+) to (\d+)", error.advice)
    assert "or raise storage.segment_bytes_max." in error.advice
    flags = [f"{key}={value}" for key, value in lowered]
    assert config.load(flags=("storage.segment_bytes_max=1048576", *flags))


@pytest.mark.parametrize("pair", NOT_ABOVE, ids=lambda pair: f"{pair[0]}<={pair[2]}")
def test_each_bound_between_two_keys_is_in_force(pair: tuple[str, int, str, str]) -> None:
    """Raise the first to the second, or lower the second to the first: one of them breaks it."""
    low, times, high, _ = pair
    settings = config.Settings()
    section, _, key = high.partition(".")
    limit = getattr(getattr(settings, section), key)
    section, _, key = low.partition(".")
    table = settings.model_dump()
    table[section][key] = limit * 2 / times if isinstance(limit, float) else limit * 2 // times
    broken = {name: of.model_construct(**table[name]) for name, of in config.SECTIONS.items()}
    with pytest.raises(InvalidOption):
        config.validate(config.Settings.model_construct(**broken))


def test_texts_are_never_echoed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text may be a secret that was written at the wrong key."""
    secret = "hunter2-very-secret"
    refusals = [
        refusal(write(tmp_path, f'[client]\ncompression = "{secret}"\n')),
        refusal(write(tmp_path, f'[client]\ntoken = "{secret}"\n')),
        refusal(write(tmp_path, f'[up]\nnodes = "{secret}"\n')),
        refusal(flags=(f"client.tokn={secret}",)),
        refusal(flags=(f"client.compression={secret}",)),
        refusal(flags=(f"metrics.token={secret}",)),
        refusal(flags=("discovery.zookeeper=a:1", f"discovery.zookeeper_credentials=a:{secret}")),
    ]
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", secret)
    refusals.append(refusal())
    for error in refusals:
        assert secret not in f"{error} {error!r} {error.__context__}"


def test_leases_are_off_and_shorter_than_an_election_timeout_where_they_are_on() -> None:
    assert config.load().raft.timing().lease_us == 0
    raft = config.load(flags=["raft.leader_lease=true"]).raft
    timing = raft.timing()
    assert timing.lease_us == 810_000, "two ticks and a tenth less than 20 ticks of 50 ms"
    assert timing.lease_us < raft.election_timeout_min_s * 1_000_000


def test_a_lease_that_would_not_outlast_a_heartbeat_is_refused() -> None:
    flags = ("raft.leader_lease=true", "raft.lease_clock_drift_share_max=0.9")
    refused = refusal(flags=flags)
    assert refused.option == "raft.leader_lease"
    assert "0.09 s" in str(refused)
    assert "raft.heartbeat_interval_s" in str(refused)


def test_loaded_settings_are_frozen_values() -> None:
    settings = config.load(flags=["up.nodes=5"])
    with pytest.raises(ValueError, match="frozen"):
        settings.up.nodes = 3  # type: ignore[misc]
    assert type(settings) is config.Settings
    assert settings == config.Settings(up=config.UpSettings(nodes=5))


def test_the_test_process_has_no_settings_of_its_own() -> None:
    """Credentials that Spark's tests define are no settings."""
    own = [name for name in os.environ if name.startswith("RAFTLOG_")]
    assert [name for name in own if not name.startswith("RAFTLOG_CREDENTIAL_")] == []


def test_every_key_is_read_somewhere() -> None:
    """A key without effect is a promise that is not kept."""
    sources = [*(ROOT / "raftlog").rglob("*.py"), *(ROOT / "connector").rglob("*.py")]
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sources if path.name != "config.py"
    )
    text += (ROOT / "raftlog" / "config.py").read_text(encoding="utf-8").partition("def timing")[2]
    unread = [
        f"{name}.{key}"
        for name, section in config.SECTIONS.items()
        for key in section.model_fields
        if not re.search(rf"\.{key}\b", text) and f'setting="{key}"' not in text
    ]
    assert unread == []
