"""The session tier's URL, read in one place."""

import pytest
from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection

from memory.errors import ConfigError
from storage.sessions.address import Kind, parse_url

PLAIN = {"client_name": "strata", "connection_class": Connection}
TLS = {
    "client_name": "strata",
    "connection_class": SSLConnection,
    "ssl_cert_reqs": "required",
    "ssl_check_hostname": True,
}


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "service", "options"),
    [
        ("redis://h", Kind.SINGLE, [("h", 6379)], "", PLAIN | {"db": 0}),
        ("redis://:p%40ss@h:7000/3", Kind.SINGLE, [("h", 7000)], "", PLAIN | {"db": 3, "password": "p@ss"}),
        ("redis://h?db=2&client_name=me", Kind.SINGLE, [("h", 6379)], "", PLAIN | {"db": 2, "client_name": "me"}),
        ("redis://u:p@[::1]:1/0", Kind.SINGLE, [("::1", 1)], "", PLAIN | {"db": 0, "username": "u", "password": "p"}),
        (
            "rediss://h/1?ssl_ca_certs=/ca.pem",
            Kind.SINGLE,
            [("h", 6379)],
            "",
            TLS | {"db": 1, "ssl_ca_certs": "/ca.pem"},
        ),
        (
            "rediss://h?ssl_cert_reqs=none",
            Kind.SINGLE,
            [("h", 6379)],
            "",
            TLS | {"db": 0, "ssl_cert_reqs": "none", "ssl_check_hostname": False},
        ),
        (
            "unix:///run/a%20b.sock?db=1",
            Kind.SINGLE,
            [],
            "",
            PLAIN | {"db": 1, "path": "/run/a b.sock", "connection_class": UnixDomainSocketConnection},
        ),
        (
            "redis+sentinel://u:p@a,b:1,[::1]:2/main/4",
            Kind.SENTINEL,
            [("a", 26379), ("b", 1), ("::1", 2)],
            "main",
            PLAIN | {"db": 4, "username": "u", "password": "p"},
        ),
        ("redis+sentinel://a/main?db=5", Kind.SENTINEL, [("a", 26379)], "main", PLAIN | {"db": 5}),
        ("redis+cluster://a,b:1", Kind.CLUSTER, [("a", 6379), ("b", 1)], "", PLAIN),
        ("redis+cluster://a/0", Kind.CLUSTER, [("a", 6379)], "", PLAIN),
        ("rediss+cluster://:p@a", Kind.CLUSTER, [("a", 6379)], "", TLS | {"password": "p"}),
    ],
)
def test_every_kind_of_url(url, kind, hosts, service, options):
    address = parse_url(url)
    assert (address.kind, list(address.hosts), address.service, address.options) == (kind, hosts, service, options)


def test_the_sentinels_have_a_password_of_their_own():
    address = parse_url("rediss+sentinel://:servers@a/main?sentinel_username=s&sentinel_password=theirs")
    assert address.options["password"] == "servers" and address.options["connection_class"] is SSLConnection
    assert address.sentinel_options == {key: TLS[key] for key in TLS if key != "client_name"} | {
        "username": "s",
        "password": "theirs",
    }
    assert "servers" not in repr(address) and "theirs" not in repr(address)


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("", "redis://"),
        ("h:6379", "redis://"),
        ("http://h", "redis+cluster://"),
        ("redis+ring://h", "redis+cluster://"),
        ("memcached+cluster://h", "redis+cluster://"),
        ("redis://", "a host is missing"),
        ("redis://h:port", "port"),
        ("redis://h:70000", "port"),
        ("redis://[::1", "cannot be read"),
        ("redis://h/main", "a number"),
        ("redis://h/0/1", "a number"),
        ("redis://h/-1", "a number"),
        ("redis://a,b", "redis+cluster://"),
        ("unix://run/s.sock", "whole path"),
        ("redis+sentinel://a,b", "name the service"),
        ("redis+sentinel://a/main/x", "a number"),
        ("redis+cluster://a/1", "database 0"),
        ("redis://h?socket_timeout=9", "deadlines.sessions_s"),
        ("redis://h?ssl_ca_certs=/x", "'ssl_ca_certs'"),
        ("rediss://h?ssl_cert_reqs=optional", "required or none"),
        ("rediss://h?ssl_check_hostname=1", "true or false"),
        ("redis://h?sentinel_password=x", "'sentinel_password'"),
        ("redis://h?nonsense", "cannot be read"),
    ],
)
def test_a_wrong_url_says_what_would_be_right_and_shows_no_password(url, fix):
    given = url.replace("://", "://:hidden@") if "://" in url and "unix" not in url else url
    with pytest.raises(ConfigError) as error:
        parse_url(given)
    assert error.value.where == "sessions_url" and fix in error.value.fix
    assert "hidden" not in str(error.value) and "\n" not in str(error.value)
