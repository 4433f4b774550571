"""T1: the task state and its merge patch (RFC 7396)."""

import pytest

from memory.errors import InvalidInput, TooLarge
from memory.state import MAX_DEPTH, merge_patch, patch_state
from memory.turns import TaskState

STATE = TaskState(3, "refund", {"order": "A-17", "address": {"city": "柏林", "zip": "10115"}}, ("date",), {"lookup": 1})


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # the cases of RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_is_rfc_7396(target, patch, result):
    before = repr((target, patch))
    assert merge_patch(target, patch) == result
    assert repr((target, patch)) == before


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({}, STATE),
        ({"intent": "改签"}, TaskState(3, "改签", STATE.slots, ("date",), {"lookup": 1})),
        ({"intent": None}, TaskState(3, None, STATE.slots, ("date",), {"lookup": 1})),
        (
            {"slots": {"order": None, "address": {"city": "汉堡"}}},
            TaskState(3, "refund", {"address": {"city": "汉堡", "zip": "10115"}}, ("date",), {"lookup": 1}),
        ),
        (
            {"slots": None, "missing": None, "results": None},
            TaskState(3, "refund", {}, (), {}),
        ),
        (
            {"missing": ["日期", "name"], "results": {"pay": [1.5, True, None, {"ok": None}]}},
            TaskState(
                3, "refund", STATE.slots, ("日期", "name"), {"lookup": 1, "pay": [1.5, True, None, {"ok": None}]}
            ),
        ),
    ],
)
def test_t1_a_patch_changes_what_it_names_and_nothing_else(patch, expected):
    assert patch_state(STATE, patch) == expected


def nested(levels: int):
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ([1], "state"),
        ({"intnet": "x"}, "intnet"),
        ({"version": 4}, "version"),
        ({"intent": 5}, "intent"),
        ({"intent": " "}, "intent"),
        ({"intent": "长" * 501}, "intent"),
        ({"intent": "a\x00"}, "intent"),
        ({"slots": []}, "slots"),
        ({"slots": "x"}, "slots"),
        ({"results": 3}, "results"),
        ({"slots": {"": 1}}, "slots"),
        ({"slots": {"k" * 129: 1}}, "slots"),
        ({"slots": {1: 1}}, "slots"),
        ({"slots": {"a": {"b": float("nan")}}}, "slots.a.b"),
        ({"slots": {"a": [1, float("inf")]}}, "slots.a.1"),
        ({"slots": {"a": 2**63}}, "slots.a"),
        ({"slots": {"a": "\ud83d"}}, "slots.a"),
        ({"slots": {"a\x00": 1}}, "slots"),
        ({"slots": {"a": {1, 2}}}, "slots.a"),
        ({"results": {"a": b"x"}}, "results.a"),
        ({"slots": nested(MAX_DEPTH + 1)}, "slots" + ".a" * MAX_DEPTH),
        ({"slots": nested(5000)}, "slots" + ".a" * MAX_DEPTH),
        ({"missing": "date"}, "missing"),
        ({"missing": ["a"] * 101}, "missing"),
        ({"missing": ["a", ""]}, "missing.1"),
        ({"missing": ["a", 1]}, "missing.1"),
        ({"missing": ["\udc00"]}, "missing.0"),
    ],
)
def test_t1_bad_patches_name_the_field(patch, field):
    with pytest.raises(InvalidInput) as error:
        patch_state(STATE, patch)
    assert error.value.field == field
    assert not isinstance(error.value, TooLarge)


def test_t1_the_whole_state_is_bounded_in_bytes_not_characters():
    assert patch_state(STATE, {"slots": {"a": "b" * 60_000}}).slots["a"]
    with pytest.raises(TooLarge):
        patch_state(STATE, {"slots": {"a": "长" * 60_000}})
    grown = patch_state(STATE, {"slots": {"a": "b" * 40_000}})
    with pytest.raises(TooLarge):
        patch_state(grown, {"results": {"a": "b" * 40_000}})
    assert patch_state(STATE, {"slots": nested(MAX_DEPTH - 1)}).slots
