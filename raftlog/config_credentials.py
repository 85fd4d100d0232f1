"""Credentials that Spark's options name: a query's identity, and the servers that may see it.

Options stand in plans, views and the metastore, and any author of SQL can set them. So an option
only names a credential. The process that uses it has the definition, in `raftlog.toml`
(`[credentials.NAME]`) or its environment (`RAFTLOG_CREDENTIAL_NAME` and so on). A credential
belongs to the servers and the CA of its definition, and goes to no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from raftlog.config_secrets import refuse_bare_token, refuse_no_reference
from raftlog.config_section import Section, setting
from raftlog.config_tls import PemFiles, refuse_half_pair
from raftlog.errors import InvalidOption

CREDENTIAL_PREFIX = "RAFTLOG_CREDENTIAL_"
_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_KEYS_OF_VARIABLES = {
    "token": "",
    "servers": "_SERVERS",
    "zookeeper": "_ZOOKEEPER",
    "ca": "_CA",
    "cert": "_CERT",
    "key": "_KEY",
}
"""By key of a definition, what follows the name in its variable."""


class Credential(Section):
    """One definition."""

    token: str = setting("", "Where the token is: file:PATH, env:NAME or command:LINE.")
    servers: str = setting("", "The nodes that it is for, host:port separated by commas.")
    zookeeper: str = setting("", "In place of servers: the ensemble that knows the nodes.")
    ca: str = setting("", "PEM file with the certificates of who may sign the nodes'.")
    cert: str = setting("", "PEM file with the certificate to show to nodes.")
    key: str = setting("", "PEM file with that certificate's private key.")


def credential(name: str, table: Mapping[str, Any], variables: Mapping[str, str]) -> Credential:
    """The credential of that name, as this process has it: `table` is the file's `[credentials]`,
    which the environment's `variables` override. Raises `InvalidOption`, which shows no value."""
    option = "raftlog.auth.credential"
    if _NAME.fullmatch(name) is None:
        raise InvalidOption(
            option=option,
            problem="is no name of a credential",
            advice="A name is 1 to 32 small letters and digits, and begins with a letter.",
        )
    variable = CREDENTIAL_PREFIX + name.upper()
    own = {
        key: variables[variable + end]
        for key, end in _KEYS_OF_VARIABLES.items()
        if variable + end in variables
    }
    in_file = table.get(name, {})
    try:
        found = Credential.model_validate({**in_file, **own} if isinstance(in_file, dict) else 0)
    except ValidationError:
        raise InvalidOption(
            option=f"credentials.{name}",
            problem="is no definition of a credential",
            advice=f"Its keys are {', '.join(_KEYS_OF_VARIABLES)}, all of them texts.",
        ) from None
    _check(found, f"credentials.{name}", variable)
    return found


def _check(found: Credential, option: str, variable: str) -> None:
    advice = (
        f"Define {variable} (file:PATH, env:NAME or command:LINE), {variable}_SERVERS and "
        f"{variable}_CA in the environment, or [{option}] in raftlog.toml, for the driver before "
        f"its session starts and for the executors (spark.executorEnv.{variable} and so on): "
        "`raftlog docs SPARK`."
    )
    if not (found.token or found.cert):
        raise InvalidOption(option=option, problem="is not defined here", advice=advice)
    if bool(found.servers) == bool(found.zookeeper):
        problem = "names both servers and ZooKeeper" if found.servers else "names no servers"
        raise InvalidOption(option=option, problem=problem, advice=advice)
    if not found.ca:
        raise InvalidOption(option=option, problem="names no CA", advice=advice)
    files = PemFiles(found.ca, found.cert, found.key)
    refuse_half_pair(files, PemFiles(f"{option}.ca", f"{option}.cert", f"{option}.key"))
    refuse_no_reference(f"{option}.token", found.token)
    refuse_bare_token(found.token, found.ca, (f"{option}.token", f"{option}.ca"))
