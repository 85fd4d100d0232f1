"""Bearer tokens whose hashes a file keeps: made, told apart, and given up.

A token is 256 random bits, so its plain SHA-256 cannot be reversed, and reading the file gives
no access. The token itself is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from raftlog.auth.principals import Caller, PrincipalType, token_group, token_principal
from raftlog.auth.token_uses import TokenUses, uses_file
from raftlog.changing_files import Latest, only_writer, replace_whole
from raftlog.errors import InvalidOption
from raftlog.redaction import without_keys

OPTION = "auth.tokens_file"
_PREFIX = "raftlog_"
"""By which people and scanners for leaked secrets know what it is."""
_TOKEN_BYTES = 32
_ID_CHARACTERS = 12
_IDENTITY_CHARACTERS_MAX = 200
_FILE_BYTES_MAX = 16 << 20
"""Some 50,000 tokens. No setting: it bounds what a wrong path may cost."""


class KnownToken(BaseModel):
    """A token as the file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    identity: str = Field(min_length=1, max_length=_IDENTITY_CHARACTERS_MAX)
    groups: tuple[str, ...] = ()
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    made: datetime
    ends: AwareDatetime | None = None
    """From when on it counts no more; None: never."""

    @property
    def principal(self) -> str:
        """The principal that it proves."""
        return token_principal(self.identity)

    @property
    def id(self) -> str:
        """By which one of an identity's tokens is told from the others: a part of its hash, so it
        is no secret."""
        return self.sha256[:_ID_CHARACTERS]


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    tokens: tuple[KnownToken, ...] = ()


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens(file: Path) -> tuple[KnownToken, ...]:
    """The tokens of a file. Raises `InvalidOption` for one that is missing or no such file."""
    try:
        with file.open("rb") as stream:
            return _Content.model_validate_json(stream.read(_FILE_BYTES_MAX)).tokens
    except OSError as error:
        problem = f"names {file}: {error.strerror}"
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"])) or "its begin"
        problem = f"names {file}, which is no file of tokens: {first['msg']} (at {at})"
    raise InvalidOption(
        option=OPTION, problem=problem, advice="`raftlog tokens add NAME --file FILE` makes one."
    )


def add_token(
    file: Path, identity: str, groups: tuple[str, ...], ends: datetime | None, now: datetime
) -> str:
    """Make a token for the identity, and keep its hash in the file, which may be new. The token is
    returned and kept nowhere. Raises `InvalidOption`, `OSError`."""
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    if identity.startswith(tuple(f"{each}:" for each in PrincipalType)):
        raise InvalidOption(
            option="NAME",
            problem=f"is {identity!r}, a principal with its type",
            advice="Give the name alone: `raftlog tokens add etl` makes a token of token:etl.",
        )
    if without_keys(identity) != identity:
        raise InvalidOption(
            option="NAME",
            problem="is a token or a key, and names are shown",
            advice="Give the name of who is to have the new token.",
        )
    if not all(each.isprintable() for each in (identity, *groups)):
        raise InvalidOption(
            option="NAME",
            problem="or a group has characters that cannot be printed",
            advice="Give names of letters, digits, signs and spaces.",
        )
    try:
        made = KnownToken(
            identity=identity, groups=groups, sha256=digest(token), made=now, ends=ends
        )
    except ValidationError:
        raise InvalidOption(
            option="NAME",
            problem=f"is {identity!r}",
            advice=f"Give a name of 1 to {_IDENTITY_CHARACTERS_MAX} characters.",
        ) from None
    with only_writer(file):
        known = read_tokens(file) if file.exists() else ()
        _write(file, (*known, made))
    return token


def remove_tokens(file: Path, identity: str, id: str | None = None) -> int:
    """Give up all tokens of the identity, or the one with this `id`; how many there were. Raises
    `InvalidOption`, `OSError`."""
    with only_writer(file):
        known = read_tokens(file)
        kept = tuple(
            each for each in known if each.identity != identity or id not in (None, each.id)
        )
        if len(kept) < len(known):
            _write(file, kept)
        return len(known) - len(kept)


def _write(file: Path, tokens: tuple[KnownToken, ...]) -> None:
    replace_whole(file, _Content(tokens=tokens).model_dump_json(indent=1).encode() + b"\n")


class TokenFile:
    """The tokens that a node accepts: those of a file as it is now, as `Latest` has it. A file that
    is damaged changes nothing; one that was deleted takes all tokens away."""

    def __init__(
        self,
        file: Path,
        on_problem: Callable[[str], None],
        on_change: Callable[[Sequence[KnownToken], Sequence[KnownToken]], None] = lambda *_: None,
        on_uses_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Reads it; `on_problem` is told what is wrong with a later one, `on_change` which tokens
        came and which went, `on_uses_lost` why their uses are not written. Raises
        `InvalidOption`."""

        def later() -> dict[str, KnownToken]:
            try:
                os.stat(file)
            except FileNotFoundError:
                on_problem(f"{OPTION} names {file}, which was deleted: no token counts")
                found: dict[str, KnownToken] = {}
            else:
                found = _by_digest(file)
            before = self._known.before
            came = [found[key] for key in found.keys() - before.keys()]
            on_change(came, [before[key] for key in before.keys() - found.keys()])
            self._uses.keep(_ids(found))
            return found

        self._known = Latest([str(file)], later, on_problem, first=partial(_by_digest, file))
        self._uses = TokenUses(uses_file(file), _ids(self._known.before), on_uses_lost)

    def caller(self, token: str) -> Caller | None:
        """Whose token it is; None: it is not known, or it has expired."""
        known = self._known.now().get(digest(token))
        if known is None or (known.ends is not None and known.ends <= datetime.now(UTC)):
            return None
        self._uses.note(known.id)
        return Caller(
            principal=known.principal,
            groups=frozenset(map(token_group, known.groups)),
        )


def _ids(tokens: Mapping[str, KnownToken]) -> list[str]:
    return [each.id for each in tokens.values()]


def _by_digest(file: Path) -> dict[str, KnownToken]:
    return {each.sha256: each for each in read_tokens(file)}
