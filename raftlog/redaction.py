"""Texts from outside, for messages about them: without a secret that was put in a wrong place, such
as a password in an address, a token as a topic's name, or a private key in place of its path.

Secrets in their own places are not searched for: what a setting leads to, a client's token and a
private key are a `SecretStr` or `SecretBytes` from where they are read to where they are used, so
no message can contain them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

_HIDDEN = "***"
_SCHEME = re.compile(r"(?i)(?<![a-z0-9+.-])([0-9+.-]*)[a-z][a-z0-9+.-]+:/{1,3}|//")
"""How a URI begins, also without a slash or the scheme; and what stands before its first letter."""
_LOCAL_PATH = re.compile(r"\.|/(?!/)")
_NO_PORT = re.compile(r"(?i)[a-z][a-z0-9+.-]+:/{1,3}[^/:@]+:([^/]*[^/0-9][^/]*)")
"""A URI's host with what is no port: a password without the `@` behind it."""
_PARAMETER = re.compile(r"[?&#;][^=&?#;/]*=")
"""The name of a URI's parameter."""
_SECRET = re.compile(r"(?i)key|secret|token|password|sig|credential|sas")
"""What the name of one has in it whose value may be secret."""
_TELLING_CHARACTERS = 6
"""A shorter secret may be part of a word, and is hidden only where a location has it."""
_PEM = "-----BEGIN"
_PEM_TEXT = re.compile(r"(?s)-----BEGIN.*?(?:-----END[^-]*-----|$)")
_KEY = "the text of a PEM file"
_TOKEN = re.compile(r"\braftlog_[\w-]{40,}")
"""A bearer token of a file of tokens."""
_RUN = re.compile(r"[\w.-]+")
"""What a JWT consists of, and may stand in: each character belongs to one run, so the time that a
search takes grows with the text, whatever is in it."""
_JWT_HEAD = re.compile(r"\beyJ[\w-]")
_VALUE_CHARACTERS = 200
_ADDRESS = re.compile(
    r"""(?ix)
    (?: [a-z][a-z0-9+.-]*:/{1,3} )?     # what no address of a node has, but a URL
    (?: \*\*\* (?: @ | %40 ) )?          # a user
    (?: \[ [^]?#;=&@]* \]? | [0-9a-f:]*::[0-9a-f:.%]* | [^:/?#;=&@]* )
    (?: : (?: \d\w{0,4} )? (?!\w) )?    # a port, or what was meant to be one
    (?: /[^:?#;=&@]* )?
    """
)
"""What an address says of its host, port and path. A password stands in none of them."""


def without_keys(text: str) -> str:
    """A text that may hold a private key or a token, by mistake, without it."""
    text = _TOKEN.sub(_HIDDEN, _PEM_TEXT.sub(_KEY, text) if _PEM in text else text)
    return _RUN.sub(_without_jwt, text) if "eyJ" in text else text


def _without_jwt(run: re.Match[str]) -> str:
    """The run without the first three parts between dots that may be a JWT, and what follows."""
    parts = run[0].split(".")
    for number, head in enumerate(parts[:-2]):
        if all(parts[number + 1 : number + 3]) and (found := _JWT_HEAD.search(head)):
            return ".".join([*parts[:number], head[: found.start()] + _HIDDEN])
    return run[0]


def shown_address(text: str, within: str = "") -> str:
    """What was given as an address, `host:port`. `within`: the list of which it is a part; a
    password may hold what separates such parts."""
    given = without_keys(within if _of_user(within)[1] or _PEM in within else text)
    if _KEY in given:
        return _KEY
    _, at, rest = _of_user(given)
    return ",".join(map(_shown_part, (f"{_HIDDEN}{at}{rest}" if at else given).split(",")))


def _of_user(address: str) -> tuple[str, str, str]:
    """A user and a password, which belong into no address; the last `@` or `%40`, which ends them;
    and what follows. "" twice: it has none."""
    escaped = address.rfind("%40") > address.rfind("@")
    return address.rpartition("%40" if escaped else "@")


def _shown_part(address: str) -> str:
    found = _ADDRESS.match(address)
    assert found is not None, "the pattern also matches nothing"
    rest = address[found.end() :]
    return f"{found[0]}{rest[0]}{_HIDDEN}" if rest else address


def shown_location(location: str) -> str:
    """What was given as the place of a file or folder, a path or a URI."""
    return _KEY if _PEM in location else without_secrets(location, location)


def without_secrets(text: str, location: str) -> str:
    """A text about a location, with neither its password nor the values of its parameters that may
    be secret. A local path that begins with a slash or a dot has none.

    Who writes a URI may forget to escape what is in a secret. So a password is all from the first
    colon to the last `@` (or `%40`), and a parameter is looked for wherever it stands.
    """
    if _LOCAL_PATH.match(location):
        return text
    user, at, _ = _of_user(_SCHEME.sub(r"\1", location, count=1))
    _, _, password = user.partition(":")
    if not at and (host := _NO_PORT.match(location)):
        text = text.replace(f":{host[1]}", f":{_HIDDEN}")
    found = [password, *_secret_values(location)]
    for secret in filter(None, (form for each in found for form in (each, unquote(each)))):
        for before, after in ((":", "@"), (":", "%40"), ("=", "")):
            text = text.replace(f"{before}{secret}{after}", f"{before}{_HIDDEN}{after}")
        if len(secret) >= _TELLING_CHARACTERS:
            text = text.replace(secret, _HIDDEN)
    return text


def _secret_values(location: str) -> Iterator[str]:
    """The values of a URI's parameters that may be secret. Each ends at the next `&`."""
    position = 0
    while name := _PARAMETER.search(location, position):
        position = name.end()
        if _SECRET.search(name[0]):
            begin, end = position, location.find("&", position)
            position = end if end >= 0 else len(location)
            yield location[begin:position]


def without_controls(text: str) -> str:
    """The text with its control characters spelled out: neither a new line nor a command to the
    terminal can come out of what others wrote."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown_value(text: str) -> str:
    """What was given as an option's value, quoted. It may be a private key, by mistake."""
    if _PEM in text:
        return _KEY
    return repr(text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}...")
