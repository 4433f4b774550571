"""Where the session tier is, from one URL: a single server, a master under Sentinel, or a cluster.

    redis://[[user]:password@]host[:6379][/db]      rediss:// the same through TLS      unix:///path/to/socket[?db=0]
    redis+sentinel://[[user]:password@]host[:26379],host,.../service[/db]               rediss+sentinel://
    redis+cluster://[[user]:password@]host[:6379],host,...                              rediss+cluster://

User and password are the servers' own; the sentinels' are options. What is wrong is a ConfigError that says what would be right and
shows nothing of the URL, which may hold a password.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection

from memory.errors import ConfigError

_WHERE = "sessions_url"
_SCHEMES = (
    "use redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster://"
)


class Kind(Enum):
    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Address:
    """`hosts` are the servers, the sentinels or some of the cluster's nodes; `options` go to every connection with a server."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...]  # none for a Unix socket, whose path is an option
    service: str = ""
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    sentinel_options: dict[str, Any] = field(default_factory=dict, repr=False)


def parse_url(url: str) -> Address:
    """ConfigError("sessions_url", what to write instead)."""
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _wrong("cannot be read; " + _SCHEMES) from None
    scheme, _, kind = parts.scheme.partition("+")
    if parts.scheme == "unix":
        return _socket(parts, given)
    if scheme not in ("redis", "rediss") or kind not in ("", "sentinel", "cluster"):
        raise _wrong(_SCHEMES)
    tls = _tls(given) if scheme == "rediss" else {}
    options = tls | _credentials(parts.netloc) | _common(given)
    options["connection_class"] = SSLConnection if scheme == "rediss" else Connection
    path = [unquote(piece) for piece in parts.path.split("/") if piece]
    if kind == "sentinel":
        if not 1 <= len(path) <= 2:
            raise _wrong("name the service that the sentinels watch: redis+sentinel://host:26379,host:26379/service")
        options["db"] = _db(given, path[1:])
        sentinels = tls | {"connection_class": options["connection_class"]}
        for name in ("username", "password"):
            if value := given.pop(f"sentinel_{name}", None):
                sentinels[name] = value
        address = Address(Kind.SENTINEL, _hosts(parts.netloc, 26379), path[0], options, sentinels)
    elif kind == "cluster":
        if _db(given, path):
            raise _wrong("a cluster has database 0 alone; leave the number out")
        address = Address(Kind.CLUSTER, _hosts(parts.netloc, 6379), options=options)
    else:
        options["db"] = _db(given, path)
        address = Address(Kind.SINGLE, _hosts(parts.netloc, 6379), options=options)
        if len(address.hosts) != 1:
            raise _wrong("several hosts are a cluster (redis+cluster://) or sentinels (redis+sentinel://)")
    _no_more(given)
    return address


def _socket(parts: SplitResult, given: dict[str, str]) -> Address:
    if not parts.path.startswith("/") or parts.netloc.rpartition("@")[2]:
        raise _wrong("give the socket's whole path: unix:///run/redis.sock")
    options = _credentials(parts.netloc) | _common(given) | {"db": _db(given, [])}
    _no_more(given)
    options |= {"path": unquote(parts.path), "connection_class": UnixDomainSocketConnection}
    return Address(Kind.SINGLE, (), options=options)


def _credentials(netloc: str) -> dict[str, Any]:
    userinfo, found, _ = netloc.rpartition("@")
    if not found:
        return {}
    username, _, password = userinfo.partition(":")
    held = {"username": unquote(username), "password": unquote(password)}
    return {name: value for name, value in held.items() if value}


def _hosts(netloc: str, usual_port: int) -> tuple[tuple[str, int], ...]:
    found = []
    for piece in netloc.rpartition("@")[2].split(","):
        try:
            place = urlsplit(f"//{piece.strip()}")
            host, port = place.hostname, place.port
        except ValueError:  # a port that is no number up to 65535, a bracket that is not closed
            raise _wrong("a host is name:port, the port a number up to 65535") from None
        if not host:
            raise _wrong("a host is missing; use redis://host:port/db")
        found.append((unquote(host), port or usual_port))
    return tuple(found)


def _db(given: dict[str, str], path: list[str]) -> int:
    text = given.pop("db", None) if not path else path[0]
    if text is None:
        return 0
    if len(path) > 1 or not text.isascii() or not text.isdigit():
        raise _wrong("the database is a number, as in redis://host:port/0")
    return int(text)


def _common(given: dict[str, str]) -> dict[str, Any]:
    return {"client_name": given.pop("client_name", "strata")}


def _tls(given: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"):
        if value := given.pop(name, None):
            found[name] = value
    if (check := given.pop("ssl_cert_reqs", "required")) not in ("required", "none"):
        raise _wrong("ssl_cert_reqs is required or none")
    if (names := given.pop("ssl_check_hostname", "true" if check == "required" else "false")) not in ("true", "false"):
        raise _wrong("ssl_check_hostname is true or false")
    return found | {"ssl_cert_reqs": check, "ssl_check_hostname": names == "true"}


def _no_more(given: dict[str, str]) -> None:
    if given:
        raise _wrong(
            f"has no option {sorted(given)[0]!r}; it has db, client_name, with TLS ssl_ca_certs, ssl_ca_path, ssl_certfile, "
            "ssl_keyfile, ssl_cert_reqs and ssl_check_hostname, with Sentinel sentinel_username and sentinel_password "
            "(deadlines.sessions_s sets how long a call may take)"
        )


def _wrong(fix: str) -> ConfigError:
    return ConfigError(_WHERE, fix)
