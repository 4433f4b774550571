"""Recall's second stage: of the candidates, which few does this question need? (L7, L8, P10, P37, P38)"""

from dataclasses import replace
from datetime import timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.calibration import ModelStatistics
from memory.encoding import EncodedQuery
from memory.entry import Kind, Source, Status
from memory.late import LONG_QUESTION
from memory.policy import Fusion, RankingFormula, RecallPolicy
from memory.recall import Found, Question, recall
from tests.memory.entries import NOW, entry

STATISTICS = ModelStatistics(pooled_mean=0.0, pooled_std=0.1, late_mean=0.0, late_std=0.1)
POLICY = RecallPolicy()
ASKED = np.eye(1, 8, dtype=np.float32)  # one token: late interaction is the cosine with it


def question(text: str) -> Question:
    return Question(text, EncodedQuery(ASKED[0], ASKED))


def like(cosine: float) -> np.ndarray:
    """Token vectors [1, 8] that match the question's token by `cosine`."""
    tokens = np.zeros((1, 8), dtype=np.float32)
    tokens[0, :2] = cosine, np.sqrt(1 - cosine**2)
    return tokens


def ids(recalled) -> list[str]:
    return [one.memory.id for one in recalled]


PEANUT = entry("peanut", "用户对花生过敏", Kind.CONSTRAINT)
TEA = entry("tea", "用户喜欢喝龙井茶", Kind.PREFERENCE)
CAT = entry("cat", "用户养了一只叫年糕的橘猫")
BERLIN = entry("berlin", "The user lives in Berlin.", Kind.PROFILE, language="en")
CHINESE = entry("chinese", "以后都用中文回答用户", Kind.CONSTRAINT)
SHORT = entry("short", "The user wants short answers.", Kind.PREFERENCE, language="")


@pytest.mark.parametrize(
    ("asked", "recalled"),
    [
        ("法国的首都是哪里？", []),
        ("Who wrote Hamlet?", []),
        ("你好", []),
        ("Thanks, that was great!", []),
        ("今天天气怎么样？", []),
    ],
)
def test_l8_an_unrelated_question_recalls_nothing_however_few_entries_there_are(asked, recalled):
    """The best of three is still no answer: the probability does not look at the other candidates."""
    found = [Found(PEANUT, like(0.08)), Found(TEA, like(0.05)), Found(CAT, like(0.0))]
    assert ids(recall(question(asked), found, POLICY, STATISTICS, NOW)) == recalled


@pytest.mark.parametrize(
    "asked", ["推荐一家餐厅", "今晚吃什么好？", "Recommend a restaurant", "What should I cook tonight?"]
)
def test_a_meal_recalls_the_allergy_though_they_share_no_word(asked):
    found = [Found(PEANUT, like(-0.1)), Found(CAT, like(0.1))]
    (one,) = recall(question(asked), found, POLICY, STATISTICS, NOW)
    assert one.memory is PEANUT
    assert one.score >= 0.5 * PEANUT.confidence  # and not at the bottom, where its words would put it


def test_late_interaction_finds_without_a_common_word_across_languages():
    found = [Found(BERLIN, like(0.5)), Found(CAT, like(0.05))]
    (one,) = recall(question("我住在哪个城市？"), found, POLICY, STATISTICS, NOW)
    assert one.memory is BERLIN
    assert one.why == "similar meaning, same topic; said by the user on 2026-03-02"
    assert one.parts["relevance late"] == pytest.approx(5.0)
    assert one.probability > 0.9


def test_the_attribute_that_an_entry_sets_tells_its_topic():
    coder = entry("coder", "用户是一名程序员", Kind.PROFILE)
    found = [Found(replace(coder, subject="job"), like(0.2)), Found(CAT, like(0.0))]
    asked = question("我做什么工作的？")
    assert ids(recall(asked, found, POLICY, STATISTICS, NOW)) == ["coder"]
    assert recall(asked, [Found(coder, like(0.2))], POLICY, STATISTICS, NOW) == []


def test_p37_without_an_embedder_keywords_find():
    found = [Found(BERLIN, bm25=2.0), Found(TEA, bm25=None), Found(CAT, unindexed=True)]
    for text, expected in [("Berlin", ["berlin"]), ("龙井", ["tea"]), ("橘猫", ["cat"]), ("Paris", [])]:
        assert ids(recall(Question(text), found, POLICY, STATISTICS, NOW)) == expected, text


def test_p13_two_characters_are_a_word():
    found = [Found(entry("m", "用户住在北京"), unindexed=True), Found(TEA, unindexed=True)]
    assert ids(recall(Question("北京"), found, POLICY, None, NOW)) == ["m"]


def test_p37_what_waits_for_the_index_is_found_beside_what_does_not():
    """One has token vectors and the index's BM25, the other has neither yet."""
    waiting = entry("waiting", "用户喜欢喝普洱茶", Kind.PREFERENCE)
    found = [Found(TEA, like(0.6), cosine=0.6, bm25=4.0), Found(waiting, unindexed=True), Found(CAT, like(0.0))]
    recalled = recall(question("我喜欢喝什么茶？"), found, POLICY, STATISTICS, NOW)
    assert set(ids(recalled)) == {"tea", "waiting"}
    assert all("late" not in one.parts for one in recalled if one.memory is waiting)


def test_p37_rows_that_wait_are_scored_on_the_scale_of_the_index():
    twin = entry("twin", "用户喜欢喝龙井茶。")
    found = [Found(TEA, bm25=40.0), Found(twin, unindexed=True), Found(CAT, bm25=0.0)]
    policy = RecallPolicy(threshold=0.0)
    by_id = {one.memory.id: one for one in recall(Question("龙井茶"), [*found[:1], found[2]], policy, None, NOW)}
    alone = {one.memory.id: one for one in recall(Question("龙井茶"), found[1:], policy, None, NOW)}
    assert by_id["tea"].parts["similarity"] == alone["twin"].parts["similarity"] == 1.0
    waiting = replace(found[1], memory=entry("other", "用户喜欢喝龙井茶和咖啡"))
    both = {one.memory.id: one for one in recall(Question("龙井茶"), [found[0], waiting, found[2]], policy, None, NOW)}
    assert 20 < both["other"].parts["keywords"] <= 40


def test_keywords_break_what_late_interaction_leaves_even():
    one, two = entry("one", "订单 A20771 已经退款"), entry("two", "订单 A20772 已经退款")
    found = [Found(one, like(0.6), bm25=1.0), Found(two, like(0.6), bm25=5.0)]
    assert ids(recall(question("订单 A20772 退款了吗"), found, POLICY, STATISTICS, NOW))[0] == "two"


@pytest.mark.parametrize("fusion", list(Fusion))
def test_both_fusions_put_the_best_of_both_arms_first(fusion):
    policy = RecallPolicy(fusion=fusion, threshold=0.0)
    best, half, none = entry("best", "a"), entry("half", "b"), entry("none", "c")
    found = [Found(none, like(0.0)), Found(half, like(0.5), bm25=0.5), Found(best, like(0.9), bm25=3.0)]
    assert ids(recall(question("x"), found, policy, STATISTICS, NOW)) == ["best", "half", "none"]


def test_the_policy_limits_kinds_number_and_threshold():
    many = [Found(entry(f"m{i}", f"用户喜欢第 {i} 种茶", Kind.PREFERENCE), like(0.6)) for i in range(9)]
    asked = question("我喜欢什么茶")
    assert len(recall(asked, many, POLICY, STATISTICS, NOW)) == 5
    assert len(recall(asked, many, RecallPolicy(limit=3), STATISTICS, NOW)) == 3
    for policy in (
        RecallPolicy(limit=0),
        RecallPolicy(enabled=False),
        RecallPolicy(kinds=frozenset({Kind.FACT})),
        RecallPolicy(threshold=1.0),
    ):
        assert recall(asked, many, policy, STATISTICS, NOW) == []
    assert recall(asked, [], POLICY, STATISTICS, NOW) == []


def test_l17_what_waits_for_a_review_does_not_exist():
    pending = Found(replace(TEA, status=Status.PENDING), like(0.9))
    assert recall(question("我喜欢什么茶"), [pending], POLICY, STATISTICS, NOW) == []


def test_duplicates_are_folded():
    found = [Found(TEA, like(0.7)), Found(entry("again", "用户喜欢喝龙井茶！", Kind.PREFERENCE), like(0.6))]
    assert ids(recall(question("我喜欢喝什么茶"), found, POLICY, STATISTICS, NOW)) == ["tea"]


def test_p10_an_unrelated_newer_entry_does_not_push_out_the_older():
    old = entry("old", "用户住在杭州", Kind.PROFILE, updated_at=NOW - timedelta(days=400))
    found = [Found(old, like(0.6)), Found(CAT, like(0.1))]
    assert ids(recall(question("我住在哪里"), found, POLICY, STATISTICS, NOW)) == ["old"]


def test_l7_the_formula_weighs_age():
    old = entry("old", "用户完成了退款", Kind.TASK_RESULT, updated_at=NOW - timedelta(days=180))
    new = entry("new", "用户办好了退款", Kind.TASK_RESULT)
    found = [Found(old, like(0.62)), Found(new, like(0.6))]
    for formula in RankingFormula:
        recalled = recall(question("我的退款怎么样了"), found, RecallPolicy(formula=formula), STATISTICS, NOW)
        assert ids(recalled) == ["new", "old"], formula


@pytest.mark.parametrize(
    ("memory", "standing"),
    [
        (CHINESE, True),
        (SHORT, True),
        (entry("m", "Never use emoji.", Kind.CONSTRAINT, subject="answer_style"), True),
        (replace(SHORT, source=Source.MODEL), False),  # L4: what a model inferred commands nothing
        (replace(SHORT, kind=Kind.FACT), False),
        (replace(SHORT, status=Status.OUTDATED), False),  # L6: a retired wish is no wish
        (TEA, False),
    ],
)
def test_standing_entries_say_how_to_answer(memory, standing):
    assert Found(memory).standing is standing


def test_m1_standing_entries_come_with_any_question_after_what_was_found():
    found = [Found(CHINESE, like(0.0)), Found(SHORT, like(0.0)), Found(CAT, like(0.6)), Found(TEA, like(0.0))]
    assert set(
        ids(recall(question("法国的首都是哪里？"), [f for f in found if f.memory is not CAT], POLICY, STATISTICS, NOW))
    ) == {
        "chinese",
        "short",
    }
    asked = question("我的猫叫什么名字")
    assert ids(recall(asked, found, POLICY, STATISTICS, NOW))[0] == "cat"
    assert len(recall(asked, found, RecallPolicy(standing=1), STATISTICS, NOW)) == 2
    assert ids(recall(asked, found, RecallPolicy(standing=0), STATISTICS, NOW)) == ["cat"]
    assert ids(recall(asked, found, RecallPolicy(limit=1), STATISTICS, NOW)) == ["cat"]


def test_the_reason_is_in_the_users_time_zone_and_says_where_it_comes_from():
    late_evening = replace(TEA, created_at=NOW.replace(hour=20), source=Source.TOOL)
    (one,) = recall(
        question("龙井茶"), [Found(late_evening, like(0.0))], POLICY, STATISTICS, NOW, timezone(timedelta(hours=8))
    ) or recall(Question("龙井茶"), [Found(late_evening)], POLICY, None, NOW, timezone(timedelta(hours=8)))
    assert one.why == "shared words, same topic; verified by a tool on 2026-03-03"


def test_evidence_is_called_weak_where_there_is_none():
    (one,) = recall(question("x"), [Found(CAT, like(0.0))], RecallPolicy(threshold=0.0), STATISTICS, NOW)
    assert one.why.startswith("weak evidence")


def test_a_long_question_is_scored_from_both_sides_on_its_own_scale():
    dialogue = EncodedQuery(ASKED[0], np.repeat(ASKED, LONG_QUESTION, axis=0))
    best, half, none = (Found(entry(name, name), like(cosine)) for name, cosine in (("a", 0.9), ("b", 0.5), ("c", 0.1)))
    recalled = recall(Question("x", dialogue), [none, half, best], RecallPolicy(threshold=0.0), STATISTICS, NOW)
    assert [one.parts["similarity"] for one in recalled] == pytest.approx([1 / 1.45, 0.5 / 1.45, 0.0], abs=1e-5)


def test_an_encoded_question_without_tokens_is_judged_by_keywords():
    blank = Question("龙井", EncodedQuery(ASKED[0], np.zeros((0, 8), dtype=np.float32)))
    assert ids(recall(blank, [Found(TEA, like(0.5)), Found(CAT, like(0.5))], POLICY, STATISTICS, NOW)) == ["tea"]


CANDIDATES = [
    Found(PEANUT, like(0.3), cosine=0.3),
    Found(TEA, like(0.3), bm25=1.0),
    Found(CAT, unindexed=True),
    Found(BERLIN, like(0.2)),
    Found(SHORT, like(0.1)),
    Found(replace(CAT, id="cat2"), unindexed=True),
]


@settings(deadline=None)
@given(st.permutations(CANDIDATES), st.sampled_from(list(Fusion)), st.sampled_from(["我的猫", "dinner", "茶"]))
def test_the_answer_does_not_depend_on_the_order_of_the_candidates(shuffled, fusion, text):
    policy = RecallPolicy(fusion=fusion, threshold=0.1)
    expected = recall(question(text), CANDIDATES, policy, STATISTICS, NOW)
    assert ids(recall(question(text), shuffled, policy, STATISTICS, NOW)) == ids(expected)
