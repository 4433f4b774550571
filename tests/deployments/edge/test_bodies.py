"""Bodies: what each call takes, and what it says of what it does not take."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from deployments.edge.bodies.context import ContextBody
from deployments.edge.bodies.memories import CreateMemories, DeleteAll, PatchMemory, SearchBody, entries_of
from deployments.edge.bodies.sessions import AppendTurns, OpenSession, PatchState, ReplaceTurn, TurnBody
from deployments.edge.idempotency import Ids
from deployments.edge.problems import validation_problem
from memory.entry import Kind, Status
from memory.errors import InvalidInput
from memory.policy import PromptPolicy
from memory.turns import MemoryMode, Role, ToolCall

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
FRESH = Ids(NOW, lambda n: bytes(n))
RETRIED = Ids(NOW, lambda n: bytes(n), ("shop", "alice", "key-1", "digest"))


def turn(**fields):
    return TurnBody.model_validate({"role": "user", "content": "hello", **fields})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("我住在北京。", "我住在北京。"),
        ([{"type": "text", "text": "I live in"}, {"type": "text", "text": "Berlin."}], "I live in\nBerlin."),
        (
            [{"type": "input_text", "text": "看看"}, {"type": "image_url", "image_url": {"url": "data:…"}}],
            "看看\n[image]",
        ),
        ([{"type": "input_audio", "input_audio": {}}, {"type": "file"}], "[audio]\n[file]"),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], "a"),  # parts are the chat API's own
        ([{"type": "hologram"}], "[hologram]"),
    ],
)
def test_content_is_a_text_or_parts(content, text):
    assert turn(content=content).content == text


def test_an_assistants_turn_may_call_tools_and_say_nothing():
    calls = [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"id": 7'}}]
    new = turn(role="assistant", content=None, tool_calls=calls).new_turn("t1", NOW, MemoryMode.ON)
    assert new.content == ""
    assert new.tool_calls == (ToolCall("call_1", "find", '{"id": 7'),)  # the text as the model wrote it, broken or not


def test_a_tools_turn_names_its_call_and_may_be_empty():
    new = turn(role="tool", content="", tool_call_id="functions.find:0").new_turn("t1", NOW, MemoryMode.READ)
    assert (new.role, new.tool_call_id, new.memory) == (Role.TOOL, "functions.find:0", MemoryMode.READ)


def test_times_are_kept_in_utc():
    assert turn(at="2026-03-02T09:30:00+08:00").at == datetime(2026, 3, 2, 1, 30, tzinfo=UTC)
    assert turn(at="2026-03-02t09:30:00.123456z").at == datetime(2026, 3, 2, 9, 30, 0, 123456, tzinfo=UTC)
    assert turn().new_turn("t1", NOW, MemoryMode.ON).at == NOW


def fields_of(model, document):
    """(field, fix) of the first error, as the problem document has it."""
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(model).validate_python(document)
    problem = json.loads(
        validation_problem([{**e, "loc": ("body", *e["loc"])} for e in refused.value.errors()], "req_1").body
    )
    assert problem["status"] in (413, 422)
    return problem["field"], problem["detail"], problem["status"]


LONG = "好" * 100_001


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"role": "robot"}, "role", "must be one of 'user', 'assistant'"),
        ({"role": None}, "role", "must be one of"),
        ({"content": ""}, "content", "must not be empty"),
        ({"content": " \n\t"}, "content", "must not be empty"),
        ({"content": None}, "content", "must not be empty"),
        ({"content": []}, "content", "must not be empty"),
        ({"content": 7}, "content", "must be a text or a list of parts"),
        ({"content": {"type": "text", "text": "a"}}, "content", "must be a text or a list of parts"),
        ({"content": ["a"]}, "content.0", "must be an object with a `type`"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text"}]}, "content.1.text", "must be a text"),
        ({"content": [{"text": "a"}]}, "content.0.type", "must name the kind"),
        ({"content": LONG}, "content", "at most 100000 characters"),
        ({"content": [{"type": "text", "text": LONG}]}, "content", "at most 100000 characters"),
        ({"at": "2026-03-02T09:30:00"}, "at", "RFC 3339 time with its offset"),
        ({"at": "2026-03-02"}, "at", "RFC 3339"),
        ({"at": "yesterday"}, "at", "RFC 3339"),
        ({"at": 1767225600}, "at", "RFC 3339"),
        ({"at": "2026-02-30T00:00:00Z"}, "at", "no time of any calendar day"),
        ({"at": "2026-03-02T09:30:00+99:00"}, "at", "no time of any calendar day"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "at", "between the years"),
        ({"id": "a b"}, "id", "A-Z a-z 0-9"),
        ({"id": ""}, "id", "A-Z a-z 0-9"),
        ({"id": 7}, "id", "must be a text"),
        ({"id": "t1\n"}, "id", "A-Z a-z 0-9"),
        ({"complete": "yes"}, "complete", "must be true or false"),
        ({"complete": 1}, "complete", "must be true or false"),
        ({"contents": "a"}, "contents", "did you mean `content`?"),
        ({"zzz": 1}, "zzz", "accepted are"),
        ({"a b c": 1}, "(unprintable name)", "accepted are"),
        ({"tool_call_id": "call_1"}, "tool_call_id", "belongs to a tool's turn"),
        ({"role": "tool"}, "tool_call_id", "is required in a tool's turn"),
        ({"role": "tool", "content": None, "tool_call_id": "c"}, "content", "is required"),
        ({"role": "tool", "tool_call_id": "a b"}, "tool_call_id", "not of the accepted form"),
        ({"role": "assistant", "content": ""}, "content", "must not be empty"),
        (
            {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}]},
            "tool_calls",
            "an assistant's turn",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
            "tool_calls.0.function.arguments",
            "must be a text",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}] * 2},
            "tool_calls",
            "an id of its own",
        ),
    ],
)
def test_turns_refused(fields, field, says):
    named, detail, status = fields_of(
        AppendTurns, {"turns": [{"role": "user", "content": "a"}, {"role": "user", "content": "x", **fields}]}
    )
    assert named == f"turns.1.{field}"
    assert says in detail
    assert status == (413 if "at most" in says else 422)


@pytest.mark.parametrize(
    ("model", "document", "field", "says"),
    [
        (AppendTurns, [], "body", "must be an object"),
        (AppendTurns, "x", "body", "must be an object"),
        (AppendTurns, {}, "turns", "is required"),
        (AppendTurns, {"turns": []}, "turns", "at least 1"),
        (AppendTurns, {"turns": {}}, "turns", "must be a list"),
        (AppendTurns, {"turns": [1]}, "turns.0", "must be an object"),
        (AppendTurns, {"turns": [{"role": "user", "content": "a"}] * 5001}, "turns", "at most 5000 items"),
        (AppendTurns, {"turns": [{"role": "user", "content": "a", "id": "x"}] * 2}, "turns.1.id", "two turns"),
        (AppendTurns, {"turns": [{"role": "user", "content": "a"}], "memory": "maybe"}, "memory", "must be one of"),
        (ReplaceTurn, {"role": "user", "content": "a", "id": "t1"}, "id", "unknown field"),
        (OpenSession, {}, "user_id", "is required"),
        (OpenSession, {"user_id": "alice@x"}, "user_id", "A-Z a-z 0-9"),
        (OpenSession, {"user_id": "a", "time_zone": "Mars/Olympus"}, "time_zone", "IANA time zone"),
        (OpenSession, {"user_id": "a", "time_zone": "../../etc/passwd"}, "time_zone", "IANA time zone"),
        (OpenSession, {"user_id": "a", "language": "??"}, "language", "not of the accepted form"),
        (OpenSession, {"user_id": "a", "metadata": {"x": "y" * 9000}}, "metadata", "at most 8192 bytes"),
        (OpenSession, {"user_id": "a", "userid": "b"}, "userid", "did you mean `user_id`?"),
        (PatchState, {}, "body", "at least one of"),
        (PatchState, {"version": 3}, "body", "at least one of"),
        (PatchState, {"slots": []}, "slots", "must be an object"),
        (PatchState, {"slots": {}, "version": -1}, "version", "at least 0"),
        (PatchState, {"slots": {}, "version": "1"}, "version", "whole number"),
        (ContextBody, {"budget_tokens": 0}, "budget_tokens", "at least 1"),
        (ContextBody, {"budget_tokens": -5}, "budget_tokens", "at least 1"),
        (ContextBody, {"budget_tokens": "6000"}, "budget_tokens", "whole number"),
        (ContextBody, {"budget_tokens": 1.5}, "budget_tokens", "whole number"),
        (ContextBody, {"budget_tokens": True}, "budget_tokens", "whole number"),
        (ContextBody, {"budget_tokens": 100, "output_reserve": 100}, "output_reserve", "less than budget_tokens"),
        (ContextBody, {"query": "  "}, "query", "must not be empty"),
        (ContextBody, {"sections": {"memory": 5}}, "sections.memory", "did you mean `memories`?"),
        (ContextBody, {"sections": {"memories": -1}}, "sections.memories", "at least 0"),
        (ContextBody, {"tools": [{}]}, "tools.0.type", "must be a text"),
        (ContextBody, {"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name", "function's name"),
        (ContextBody, {"documents": [{"id": "a"}]}, "documents.0.text", "is required"),
        (CreateMemories, {"kind": "fact"}, "content", "is required"),
        (CreateMemories, {"content": " "}, "content", "must not be empty"),
        (CreateMemories, {"content": "x" * 4001}, "content", "at most 4000"),
        (CreateMemories, {"content": "x", "importance": 2}, "importance", "at most 1"),
        (CreateMemories, {"content": "x", "importance": True}, "importance", "must be a number"),
        (CreateMemories, {"content": "x", "kind": "gossip"}, "kind", "must be one of"),
        (CreateMemories, {"content": "x", "mode": "verbatim"}, "mode", "unknown field"),
        (CreateMemories, {"memories": []}, "memories", "at least 1"),
        (CreateMemories, {"memories": [{"content": "x"}, {"content": 1}]}, "memories.1.content", "must be a text"),
        (CreateMemories, {"memories": [{"content": "x", "user_id": "b"}]}, "memories.0.user_id", "unknown field"),
        (CreateMemories, {"memories": [{"content": "x"}], "mode": "fast"}, "mode", "must be one of"),
        (CreateMemories, [], "body", "must be an object"),
        (PatchMemory, {}, "body", "at least one of"),
        (PatchMemory, {"user_id": "a"}, "body", "at least one of"),
        (PatchMemory, {"content": None}, "content", "must not be null"),
        (PatchMemory, {"status": "pending"}, "status", "must be one of 'active' or 'outdated'"),
        (DeleteAll, {}, "confirm", "is required"),
        (DeleteAll, {"confirm": "yes"}, "confirm", "must be one of 'all'"),
        (SearchBody, {"query": "x", "k": 0}, "k", "at least 1"),
        (SearchBody, {"query": "x", "k": 3, "limit": 3}, "limit", "give one of them"),
        (SearchBody, {"query": "x", "kinds": "fact"}, "kinds", "must be a list"),
        (SearchBody, {"query": "x", "since": "2026-01-01T00:00:00"}, "since", "RFC 3339"),
    ],
)
def test_refused(model, document, field, says):
    named, detail, _ = fields_of(model, document)
    assert named == field
    assert says in detail


def test_a_refusal_never_repeats_a_value():
    secret = "my-secret-words"
    for document in (
        {"role": secret},
        {"role": "user", "content": {"x": secret}},
        {"role": "user", "at": secret},
        {"role": "user", "content": "a", "id": secret + "!"},
    ):
        _, detail, _ = fields_of(TurnBody, document)
        assert secret not in detail


def test_p34_a_retry_derives_the_same_ids():
    body = AppendTurns.model_validate({"turns": [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]})
    first, second = body.new_turns(RETRIED), body.new_turns(RETRIED)
    assert [each.id for each in first] == [each.id for each in second]
    assert first[0].id != first[1].id  # equal on purpose, and two turns
    other = Ids(NOW, FRESH.entropy, (*RETRIED.seed[:3], "another digest"))
    assert body.new_turns(other)[0].id != first[0].id


def test_given_ids_are_kept():
    body = AppendTurns.model_validate({"turns": [{"role": "user", "content": "a", "id": "mine"}], "memory": "off"})
    new = body.new_turns(RETRIED)[0]
    assert (new.id, new.memory) == ("mine", MemoryMode.OFF)


def test_explicit_writes():
    one = TypeAdapter(CreateMemories).validate_python({"content": "对花生过敏", "kind": "constraint", "importance": 1})
    many = TypeAdapter(CreateMemories).validate_python(
        {"memories": [{"content": "a"}, {"content": "b"}], "user_id": "alice"}
    )
    assert [(entry.content, entry.kind) for entry in entries_of(one, FRESH)] == [("对花生过敏", Kind.CONSTRAINT)]
    assert len({entry.id for entry in entries_of(many, RETRIED)}) == 2
    assert many.user_id == "alice"


def test_a_patch_holds_what_was_given_and_nothing_else():
    assert PatchMemory.model_validate({"status": "outdated"}).patch() == {"status": Status.OUTDATED}
    assert PatchState.model_validate({"intent": None, "slots": {"city": None}, "version": 2}).patch() == {
        "intent": None,
        "slots": {"city": None},
    }


@pytest.mark.parametrize(
    ("body", "policy", "field"),
    [
        ({"budget_tokens": 500}, PromptPolicy(output_reserve=800), "budget_tokens"),
        ({"output_reserve": 9000}, PromptPolicy(budget_tokens=6000), "output_reserve"),
    ],
)
def test_one_token_count_must_fit_the_policys_other(body, policy, field):
    with pytest.raises(InvalidInput) as refused:
        ContextBody.model_validate(body).request(policy)
    assert refused.value.field == field


def test_a_context_request_holds_only_what_the_call_sets():
    request = ContextBody.model_validate(
        {"sections": {"memories": 0}, "documents": [{"id": "faq", "text": "…"}]}
    ).request(PromptPolicy())
    assert (request.budget_tokens, request.sections, request.documents[0].id) == (None, {"memories": 0}, "faq")
