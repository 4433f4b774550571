"""Domain types as JSON. Times are RFC 3339: in the user's time zone where one is known, else in UTC."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Any

import orjson
from starlette.responses import Response

from deployments.edge.caller import Caller
from deployments.zones import zone_of
from memory.entry import Memory, Revision
from memory.recall import Recalled
from memory.turns import Session, TaskState, Turn
from memory.verdict import Verdict
from storage.protocols import Page, Receipt, Retracted
from storage.receipts import ReceiptSigner

Json = dict[str, Any]


def answer(document: Any, status: int = 200) -> Response:
    """Bytes at once: what an answer holds was made here and needs no second validation."""
    return Response(orjson.dumps(document), status, media_type="application/json")


def zone_for(caller: Caller) -> tzinfo:
    return zone_of(caller.time_zone)


def shown(moment: datetime | None, zone: tzinfo) -> str | None:
    return None if moment is None else moment.astimezone(zone).isoformat().replace("+00:00", "Z")


def page_json(page: Page[Any], items: Sequence[Json]) -> Json:
    return {"items": list(items), "next_cursor": page.next_cursor}


def session_json(session: Session) -> Json:
    zone = zone_of(session.time_zone)
    return {
        "session_id": session.id,
        "user_id": session.user_id,
        "created_at": shown(session.created_at, zone),
        "expires_at": shown(session.expires_at, zone),
        "turn_count": session.turn_count,
        "time_zone": session.time_zone,
        "language": session.language,
        "metadata": dict(session.metadata),
    }


def turn_json(turn: Turn, zone: tzinfo) -> Json:
    document: Json = {
        "id": turn.id,
        "seq": turn.seq,
        "role": turn.role,
        "content": turn.content,
        "tokens": turn.tokens,
        "at": shown(turn.at, zone),
        "complete": turn.complete,
        "memory": turn.memory,
    }
    if turn.name is not None:
        document["name"] = turn.name
    if turn.tool_calls:
        document["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.tool_calls
        ]
    if turn.tool_call_id is not None:
        document["tool_call_id"] = turn.tool_call_id
    return document


def stored_turn_json(turn: Turn) -> Json:
    return {"id": turn.id, "seq": turn.seq, "tokens": turn.tokens}


def verdict_json(verdict: Verdict) -> Json:
    return {
        "candidate": verdict.candidate,
        "kind": verdict.kind,
        "verdict": verdict.decision,
        "reason": verdict.reason,
        "memory_id": verdict.memory_id,
        "superseded_id": verdict.superseded_id,
    }


def written_json(verdict: Verdict) -> Json:
    """One explicit write's outcome: the id is there where something is stored."""
    return {
        "id": verdict.memory_id,
        "content": verdict.candidate,
        "kind": verdict.kind,
        "verdict": verdict.decision,
        "reason": verdict.reason,
        "superseded_id": verdict.superseded_id,
    }


def retracted_json(retracted: Retracted) -> Json:
    return {
        "deleted": list(retracted.deleted),
        "restored": list(retracted.restored),
        "changed": list(retracted.changed),
    }


def state_json(state: TaskState) -> Json:
    return {
        "version": state.version,
        "intent": state.intent,
        "slots": dict(state.slots),
        "missing": list(state.missing),
        "results": dict(state.results),
    }


def memory_json(memory: Memory, zone: tzinfo) -> Json:
    return {
        "id": memory.id,
        "user_id": memory.user_id,
        "content": memory.content,
        "kind": memory.kind,
        "status": memory.status,
        "source": memory.source,
        "language": memory.language,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "version": memory.version,
        "created_at": shown(memory.created_at, zone),
        "updated_at": shown(memory.updated_at, zone),
        "subject": memory.subject,
        "entities": list(memory.entities),
        "session_id": memory.session_id,
        "turn_ids": list(memory.turn_ids),
        "valid_from": shown(memory.valid_from, zone),
        "valid_to": shown(memory.valid_to, zone),
        "supersedes": memory.supersedes,
        "last_access_at": shown(memory.last_access_at, zone),
        "access_count": memory.access_count,
        "hit_count": memory.hit_count,
        "metadata": dict(memory.metadata),
    }


def revision_json(revision: Revision, zone: tzinfo) -> Json:
    return {**asdict(revision), "at": shown(revision.at, zone)}


def receipt_json(receipt: Receipt, zone: tzinfo, signer: ReceiptSigner) -> Json:
    """Signed when it is complete: what is still pending proves nothing."""
    document: Json = {
        "id": receipt.id,
        "action": receipt.action,
        "user_id": receipt.user_id,
        "count": receipt.count,
        "requested_at": shown(receipt.requested_at, zone),
        "completed_at": shown(receipt.completed_at, zone),
        "stores": {
            name: {"before": one.before, "after": one.after, "method": one.method, "at": shown(one.at, zone)}
            for name, one in sorted(receipt.stores.items())
        },
    }
    signature = None if receipt.completed_at is None else signer.sign(document)
    return {**document, "signature": signature}


def recalled_json(one: Recalled, zone: tzinfo, explain: bool) -> Json:
    document = memory_json(one.memory, zone)
    document |= {"score": round(one.score, 4), "probability": round(one.probability, 4), "why": one.why}
    if explain:
        document["explain"] = {name: round(float(value), 4) for name, value in one.parts.items()}
    return document
