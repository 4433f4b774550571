"""Labels are bounded, whatever callers send (R: bounded cardinality)."""

import pytest
from prometheus_client import REGISTRY

from deployments.telemetry import metrics
from deployments.telemetry.queues import QueueMetrics
from memory.packing import _SECTIONS
from memory.verdict import Decision, Reason, Verdict


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_tenants_beyond_the_bound_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_tenants", set())
    monkeypatch.setattr(metrics, "MAX_TENANTS", 3)
    for number in range(6):
        metrics.observe("/bounded", "GET", 200, f"t{number}", 0.1)
    metrics.observe("/bounded", "GET", 200, "t1", 0.1)
    counted = {
        tenant: value("strata_http_requests_total", route="/bounded", method="GET", status="2xx", tenant=tenant)
        for tenant in ("t0", "t1", "t2", "t3", "other")
    }
    assert counted == {"t0": 1, "t1": 2, "t2": 1, "t3": 0, "other": 3}


def test_methods_are_known_ones() -> None:
    assert metrics.known_method("PATCH") == "PATCH"
    assert metrics.known_method("ZEBRA") == "other"


def test_a_verdict_is_counted_by_its_reason_never_by_what_was_said() -> None:
    labels = {"decision": "rejected", "reason": "small_talk"}
    before = value("strata_gate_verdicts_total", **labels)
    metrics.count_learning([Verdict("hello there", Decision.REJECTED, Reason.SMALL_TALK)], ["records"])
    assert value("strata_gate_verdicts_total", **labels) == before + 1


def test_what_a_context_answers_is_what_is_counted() -> None:
    names = ("strata_context_memories_count", "strata_context_tokens_sum", "strata_context_memory_tokens_sum")
    before = [value(name) for name in names]
    cut = value("strata_context_cut_total", section="recent")
    degraded = value("strata_degraded_total", part="index")
    metrics.observe_context(
        {"total": 300, "budget": 600, "by_section": {"memories": 40, "recent": 260}},
        [{"id": "m"}],
        [{"section": "recent", "items": 2, "tokens": 10}, {"section": "recent", "items": 1, "tokens": 10}],
        ["index"],
    )
    assert [value(name) - one for name, one in zip(names, before, strict=True)] == [1, 300, 40]
    assert value("strata_context_cut_total", section="recent") == cut + 1
    assert value("strata_degraded_total", part="index") == degraded + 1
    assert value("strata_context_budget_share_bucket", le="0.5") >= 1


def test_sections_that_may_be_cut_are_sections() -> None:
    assert set(metrics.SECTIONS) <= set(_SECTIONS)


def test_a_queue_is_seen_as_it_is() -> None:
    queue = QueueMetrics("reranker")
    waited = value("strata_queue_wait_seconds_count", model="reranker")
    queue.queued(3, 120)
    queue.waited(0.01)
    queue.ran(3, 120, 0.2)
    queue.refused("expired")
    assert value("strata_queue_items", model="reranker") == 3
    assert value("strata_queue_tokens", model="reranker") == 120
    assert value("strata_queue_wait_seconds_count", model="reranker") == waited + 1
    assert value("strata_batch_tokens_sum", model="reranker") >= 120
    assert value("strata_queue_refused_total", model="reranker", reason="expired") >= 1
    with pytest.raises(KeyError):
        queue.refused("any other reason")
