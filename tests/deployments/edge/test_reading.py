"""What a body may be: UTF-8, one unambiguous JSON document, texts that can be stored. Each refusal names field and fix."""

import pytest

from deployments.edge.reading import MAX_DEPTH, check_query, parse_json
from memory.errors import InvalidInput, MalformedBody


@pytest.mark.parametrize(
    ("raw", "document"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),  # a byte-order mark is accepted
        ('{"text": "我住在北京\\n🙂"}'.encode(), {"text": "我住在北京\n🙂"}),
        (b'{"text": "\\ud83d\\ude42"}', {"text": "🙂"}),  # a pair is a character, not two surrogates
        (b'{"path": "C:\\\\u0000"}', {"path": "C:\\u0000"}),  # an escaped backslash, not an escaped NUL
        (b'{"n": -9223372036854775808}', {"n": -(2**63)}),
        (b'{"tab": "a\\tb"}', {"tab": "a\tb"}),
    ],
)
def test_accepted(raw, document):
    assert parse_json(raw) == document


DEEP = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)


@pytest.mark.parametrize(
    ("raw", "field", "says"),
    [
        (b"", "body", "is empty"),
        (b" \n", "body", "is empty"),
        (b"{", "body", "not valid JSON at line 1"),
        (b"{'a': 1}", "body", "not valid JSON"),
        (b'{"a": 1} x', "body", "not valid JSON"),
        ('{"a": "café"}'.encode("latin-1"), "body", "not UTF-8 (byte 10"),
        ('{"a": "北京"}'.encode("gb18030"), "body", "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "body", "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "body", "not UTF-8"),  # a surrogate written in bytes
        (b'{"a": "x\x00y"}', "body", "unescaped control character"),
        (b'{"a": "x\ny"}', "body", "unescaped control character"),
        (b'{"turns": [{"content": "a\\u0000b"}]}', "turns.0.content", "the NUL U+0000"),
        (b'{"turns": [{"content": "a\\ud83d"}]}', "turns.0.content", "the lone surrogate U+D83D"),
        (b'{"a": "\\udc00\\ud800"}', "a", "the lone surrogate U+DC00"),
        (b'{"a": "\\u001b[31m"}', "a", "the control character U+001B"),
        (b'{"a": "\\b"}', "a", "the control character U+0008"),
        (b'{"a": "\x7f"}', "a", "the control character U+007F"),
        (b'{"m": {"\\u0000": 1}}', "m", "the NUL U+0000"),  # in a key
        (b'{"a": 1, "a": 2}', "a", "occurs twice"),
        (b'{"m": {"user_id": 1, "user_id": 2}}', "user_id", "occurs twice"),
        (b'{"a": NaN}', "body", "NaN or Infinity"),
        (b'{"a": -Infinity}', "body", "NaN or Infinity"),
        (b'{"a": 1e999}', "body", "too large for a double"),
        (b'{"a": 9223372036854775808}', "body", "beyond 64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "body", "beyond 64 bits"),
        (DEEP, "body", "nested deeper than"),
        (b"[" * 200_000, "body", "nested deeper than"),
        (b'{"a":' * 100_000, "body", "nested deeper than"),
    ],
)
def test_refused(raw, field, says):
    with pytest.raises(MalformedBody) as refused:
        parse_json(raw)
    assert refused.value.field == field
    assert says in refused.value.fix
    assert refused.value.status == 400


def test_a_refusal_never_repeats_what_was_sent():
    for raw in (b'{"a": "my secret \\u0000"}', b'{"my secret key": 1, "my secret key": 2}', b"my secret"):
        with pytest.raises(MalformedBody) as refused:
            parse_json(raw)
        assert "my secret" not in refused.value.detail


KNOWN = {"user_id": False, "kind": True, "limit": False}


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        (b"limt=3", "limt", "did you mean `limit`?"),
        (b"zzz=3", "zzz", "accepted are `kind`, `limit`, `user_id`"),
        (b"user_id=a&user_id=b", "user_id", "given twice"),
        (b"user_id=%ff", "query", "not percent-encoded UTF-8"),
        (b"user_id=\xff", "query", "not percent-encoded UTF-8"),
        (b"user_id=a%00", "user_id", "the NUL U+0000"),
        (b"User_id=a", "User_id", "did you mean `user_id`?"),
        (b"&".join(b"kind=a" for _ in range(200)), "query", "over 100 parameters"),
        (b"kind=" + b"a" * 9000, "query", "at most"),
    ],
)
def test_queries_refused(query, field, says):
    with pytest.raises(InvalidInput) as refused:
        check_query(query, KNOWN)
    assert refused.value.field == field
    assert says in refused.value.fix


def test_queries_accepted():
    check_query(b"", KNOWN)
    check_query(b"kind=fact&kind=lesson&user_id=alice&limit=3", KNOWN)
