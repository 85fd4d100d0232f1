"""Settings of who may call a node, and how callers show who they are."""

from __future__ import annotations

from raftlog.auth.principals import PRINCIPAL_ADVICE, is_alias, problem_of_principal
from raftlog.config_section import Section, half_given, setting
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_location


class AuthSettings(Section):
    """Who may call nodes: as soon as one of these says how callers are known, only these."""

    tokens_file: str = setting(
        "",
        "JSON file with the hashes of bearer tokens, which `raftlog tokens` makes and changes. "
        "Nodes look at it again within seconds. Empty: no such tokens.",
    )
    oidc_issuer: str = setting(
        "",
        "The issuer (`iss`) of access tokens in the form JWT, as an OpenID provider signs them. "
        "Empty: no such tokens.",
    )
    oidc_alias: str = setting(
        "",
        "A short name of the issuer, the same on every node: principals of its access tokens are "
        "oidc:ALIAS:SUBJECT and group:ALIAS:NAME. Use another alias for another issuer, so that "
        "the same subject there gets none of these rights. Up to 32 of a-z, 0-9, - and _.",
    )
    oidc_audience: str = setting(
        "",
        "The audience (`aud`) that an access token must name. Use an API's identifier, never a "
        "client's id: ID tokens of that client would count as well.",
    )
    oidc_jwks: str = setting(
        "",
        "Where the issuer's public keys are: an https:// address of a JSON Web Key Set, or "
        "file:PATH. Keys are kept, and read again when a token names another one.",
    )
    oidc_identity_claim: str = setting("sub", "The claim that names who calls.")
    oidc_groups_claim: str = setting("groups", "The claim with the list of the caller's groups.")

    oidc_clients: str = setting(
        "",
        "Clients of the issuer, separated by commas. A token for several audiences counts only if "
        "it was issued to one of them (`azp`).",
    )
    oidc_token_lifetime_max_s: float = setting(
        86_400.0,
        "An access token that ends later than so long from now does not count, s: it could not be "
        "taken back.",
        ge=60.0,
        le=31_536_000.0,
    )
    oidc_keys_age_max_s: float = setting(
        86_400.0,
        "How long the keys that a node knows count while it does not reach the issuer, s.",
        ge=600.0,
        le=2_592_000.0,
    )

    admins: str = setting(
        "",
        "Principals that may do everything, whatever is granted, separated by commas: token:NAME, "
        "cert:NAME, oidc:ALIAS:SUBJECT, group:ALIAS:NAME. A node with authentication needs one at "
        "least, because others may do only what is granted to them. Give it to every node.",
    )
    rights_check_s: float = setting(
        3.0,
        "How often a node looks whether grants and quotas have changed, s. A look costs some calls "
        "among nodes, also in an idle cluster.",
        ge=0.05,
        le=5.0,
    )
    rights_age_max_s: float = setting(
        600.0,
        "How long a node that cannot reach the leader of the key-value store goes on with the "
        "grants that it knows, s. Then it refuses callers, except those of auth.admins.",
        ge=5.0,
        le=86_400.0,
    )

    quota_wait_max_s: float = setting(
        2.0,
        "How long a call over its caller's quota is throttled, s. One that would have to wait "
        "longer is refused, and its client tries again.",
        ge=0.0,
        le=60.0,
    )

    @property
    def admin_principals(self) -> frozenset[str]:
        """Those of `admins`."""
        return frozenset(filter(None, map(str.strip, self.admins.split(","))))

    @property
    def oidc_client_names(self) -> frozenset[str]:
        """Those of `oidc_clients`."""
        return frozenset(filter(None, map(str.strip, self.oidc_clients.split(","))))

    @property
    def tokens_are_asked_for(self) -> bool:
        """Whether callers may show a token."""
        return bool(self.tokens_file or self.oidc_issuer)


def refuse_half_auth(settings: AuthSettings) -> None:
    """Refuse a node's settings that do not go together. Raises `InvalidOption`."""
    given = {
        f"auth.{key}": getattr(settings, key)
        for key in ("oidc_issuer", "oidc_alias", "oidc_audience", "oidc_jwks")
    }
    if (half := half_given(given)) is not None:
        raise InvalidOption(
            option=half[0],
            problem=f"is given without {half[1]}",
            advice="Give the issuer, an alias for it, the audience, and where its keys are.",
        )
    if settings.oidc_alias and not is_alias(settings.oidc_alias):
        raise InvalidOption(
            option="auth.oidc_alias",
            problem=f"is {settings.oidc_alias[:80]!r}",
            advice="Use 1 to 32 of a-z, 0-9, - and _, beginning with a letter or digit; the alias "
            "'token' is reserved.",
        )
    for admin in sorted(settings.admin_principals):
        if (problem := problem_of_principal(admin)) is not None:
            raise InvalidOption(
                option="auth.admins",
                problem=f"names {admin[:80]!r}: {problem}",
                advice=PRINCIPAL_ADVICE,
            )
    jwks = settings.oidc_jwks
    if jwks and not jwks.startswith(("https://", "file:")):
        raise InvalidOption(
            option="auth.oidc_jwks",
            problem=f"is {shown_location(jwks)!r}, which is neither an https address nor file:PATH",
            advice="Write for example https://login.example.com/keys.",
        )


def refuse_bare_auth(settings: AuthSettings, *, encrypted: bool) -> None:
    """Reject the settings of a node with authentication that has no admins, or takes tokens over
    connections that are not encrypted. Raises `InvalidOption`."""
    if not settings.admin_principals:
        raise InvalidOption(
            option="auth.admins",
            problem="is empty, and the node authenticates its callers",
            advice="They may do only what is granted to them, so an admin must make the first "
            'grant. Add to the section [auth] of raftlog.toml: admins = "token:NAME", with the '
            "NAME of `raftlog tokens add NAME`, or cert:NAME, with a certificate's common name.",
        )
    if settings.tokens_are_asked_for and not encrypted:
        raise InvalidOption(
            option="auth.tokens_file" if settings.tokens_file else "auth.oidc_issuer",
            problem="is given, and the node has no TLS",
            advice="Without it everybody on the way could read the tokens. Give tls.cert_file, "
            "tls.key_file and tls.ca_file (`raftlog certs`, `raftlog up --tls`).",
        )
