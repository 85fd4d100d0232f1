"""What somebody gave, for a message about it: without what may be secret in it."""

from __future__ import annotations

import re
from urllib.parse import unquote

_HIDDEN = "***"
_USER = re.compile(r"(?is).*(@|%40)")
"""In an address: a user and a password, which belong into none."""
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]+:/{1,3}|//")
"""How a URI begins, also where somebody left out a slash or the scheme."""
_LOCAL_PATH = re.compile(r"\.|/(?!/)")
_PARAMETER = re.compile(
    r"(?i)[?&#;]([^=&?#;/]*(?:key|secret|token|password|sig|credential|sas)[^=&?#;/]*)=([^&]+)"
)
"""The name and the value of a URI's parameter that may be secret."""
_TELLING_CHARACTERS = 6
"""A shorter secret may be part of a word, and is hidden only where a location has it."""
_PEM = "-----BEGIN"
_KEY = "the text of a PEM file"
_VALUE_CHARACTERS = 200


def shown_address(text: str, within: str = "") -> str:
    """What was given as an address, `host:port`. `within`: the list of which it is a part; a
    password may hold what separates such parts."""
    given = within if _USER.match(within) or _PEM in within else text
    return _KEY if _PEM in given else _USER.sub(rf"{_HIDDEN}\1", given)


def shown_location(location: str) -> str:
    """What was given as the place of a file or folder, a path or a URI."""
    return _KEY if _PEM in location else without_secrets(location, location)


def without_secrets(text: str, location: str) -> str:
    """A text about a location, with neither its password nor the values of its parameters that may
    be secret. A local path that begins with a slash or a dot has none.

    Who writes a URI may forget to escape what is in a secret. So a password is all from the first
    colon to the last `@`, and a parameter is looked for wherever it stands.
    """
    if _LOCAL_PATH.match(location):
        return text
    user, _, _ = _SCHEME.sub("", location, count=1).rpartition("@")
    _, _, password = user.partition(":")
    found = [password, *(value for _, value in _PARAMETER.findall(location))]
    for secret in filter(None, (form for each in found for form in (each, unquote(each)))):
        for before, after in ((":", "@"), ("=", "")):
            text = text.replace(f"{before}{secret}{after}", f"{before}{_HIDDEN}{after}")
        if len(secret) >= _TELLING_CHARACTERS:
            text = text.replace(secret, _HIDDEN)
    return text


def shown_value(text: str) -> str:
    """What was given as an option's value, quoted. It may be a private key, by mistake."""
    if _PEM in text:
        return _KEY
    return repr(text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}...")
