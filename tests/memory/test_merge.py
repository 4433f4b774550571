"""Merge and conflict: L4, L5, L6, L17; faults P7-P11, P34. Tables in Chinese and English; where sentences matter, the real gate
makes the candidates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.calibration import ModelStatistics
from memory.entry import Candidate, Kind, Source, Status
from memory.gate import judge
from memory.merge import Merge, MergeReason, Outcome, merge
from memory.policy import GatePolicy, MergePolicy
from memory.settling import Origin, merge_in_order, settle
from memory.turns import Role, Turn
from memory.verdict import Decision
from tests.memory.prompt_cases import memory

POLICY = MergePolicy()
SAID = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = datetime(2026, 6, 9, 12, tzinfo=UTC)
E5 = ModelStatistics(0.773, 0.049, 0.108, 0.079)


def candidate(content: str, kind: Kind = Kind.FACT, **more) -> Candidate:
    return Candidate(content, kind, **more)


def known(content: str, id: str = "old", **more):
    return memory(id, content, **more)


def decide(new: Candidate, *existing, cosine=None, **more) -> Merge:
    return merge(new, [(m, cosine) for m in existing], POLICY, E5, said_at=LATER, **more)


def origin(number: int = 1, at: datetime = LATER, **more) -> Origin:
    return Origin(f"m{number}", "u", at, "s", **{"turn_ids": (f"t{number}",), **more})


def said(text: str, number: int = 1, at: datetime = LATER) -> list[tuple[Candidate, Origin]]:
    """What the gate makes of a user's turn."""
    judged = judge(Turn(f"t{number}", number, Role.USER, text, 0, at), policy=GatePolicy())
    accepted = [judgement.candidate for judgement in judged if judgement.candidate]
    assert accepted, f"the gate kept nothing of {text!r}"
    return [(one, origin(number * 10 + i, at, turn_ids=(f"t{number}",))) for i, one in enumerate(accepted)]


def tell(*texts: str, days_apart: int = 7):
    """Entries as they are after a user has said `texts` on different days."""
    store = {}
    for number, text in enumerate(texts, 1):
        at = SAID + timedelta(days=days_apart * number)
        for result in merge_in_order(said(text, number, at), list(store.values()), POLICY):
            store.update((m.id, m) for m in result.changed)
    return list(store.values())


def active(entries):
    return [m for m in entries if m.status is Status.ACTIVE]


# --- what was said, from sentence to entries --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "now"),
    [
        ("My favourite player is Ronaldo.", "My current favourite is Messi.", "messi"),
        ("My favourite player is Ronaldo.", "My favourite player is Messi now.", "messi"),
        ("我最喜欢的球员是罗纳尔多。", "我现在最喜欢的球员是梅西。", "梅西"),
        ("I live in Hamburg.", "I moved to Berlin.", "berlin"),
        ("我住在上海。", "我搬到柏林了。", "berlin"),
        ("我住在上海。", "I live in Berlin.", "berlin"),  # whatever the language
        ("My budget is 2000 euros.", "Actually my budget is 3000 euros.", "3000 euros"),
        ("我的预算是两千元。", "预算改成三千元。", "三千元"),
    ],
)
def test_p7_a_new_value_retires_the_old_one_and_only_one_is_live(first, second, now):
    entries = tell(first, second)
    assert [m.value for m in active(entries)] == [now]
    new = active(entries)[0]
    (old,) = [m for m in entries if m.status is Status.OUTDATED]
    assert new.supersedes == old.id
    assert new.subject == old.subject
    assert old.valid_to == new.created_at


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I love Chinese food.", "I hate Chinese food."),
        ("我喜欢吃中餐。", "我讨厌中餐。"),
        ("I like coffee.", "I don't like coffee."),
        ("我爱喝茶。", "我不喜欢喝茶。"),
    ],
)
def test_p8_love_then_hate_leaves_the_hate_and_never_an_empty_store(first, second):
    entries = tell(first, second)
    assert [m.value for m in active(entries)] == ["dislike"]
    assert [m.value for m in entries if m.status is Status.OUTDATED] == ["like"]
    back = tell(first, second, first)
    assert [m.value for m in active(back)] == ["like"]
    assert len(back) == 3


@pytest.mark.parametrize(
    "texts",
    [
        ("I'm allergic to peanuts.",) * 2,
        ("我对花生过敏。",) * 2,
        ("I live in Berlin.", "I reside in Berlin.", "I live in Berlin."),
        ("我是素食者。", "我吃素。"),
        ("My budget is 2,000 euros.", "My budget is 2000 euros."),
        ("我的预算是两千元。", "我的预算是2000元。"),
        ("I live in Berlin.", "我住在柏林。"),
    ],
)
def test_p9_the_same_fact_again_confirms_it_and_deletes_nothing(texts):
    (entry,) = tell(*texts)
    assert entry.status is Status.ACTIVE
    assert entry.hit_count == len(texts)
    assert entry.confidence == pytest.approx(POLICY.start_confidence + POLICY.confirm_step * (len(texts) - 1))
    assert entry.turn_ids == tuple(f"t{i}" for i in range(1, len(texts) + 1))


@pytest.mark.parametrize(
    "texts",
    [
        ("I live in Berlin.", "I'm allergic to peanuts.", "I love Chinese food.", "My budget is 2000 euros."),
        ("我住在柏林。", "我对花生过敏。", "我讨厌香菜。", "我的预算是两千元。"),
        ("I'm allergic to peanuts.", "I'm allergic to shrimp."),
        ("我对花生过敏。", "我对芒果过敏。"),
        ("I like coffee.", "I hate tea."),
        ("我喜欢喝咖啡。", "我讨厌喝茶。"),
    ],
)
def test_p10_unrelated_facts_never_touch_each_other(texts):
    entries = tell(*texts)
    assert len(active(entries)) == len(entries) == len(texts)


def test_p11_one_turn_that_says_a_thing_twice_makes_one_entry():
    proposals = [*said("I live in Berlin.", 1), *said("I reside in Berlin.", 2)]
    proposals = [(c, replace(o, turn_ids=("t1",))) for c, o in proposals]
    first, second = merge_in_order(proposals, [], POLICY)
    assert (first.decision, second.decision) == (Decision.STORED, Decision.CONFIRMED)
    assert second.memory_id == first.memory_id
    assert second.changed == ()  # the same breath adds no confidence


def test_p11_one_turn_that_corrects_itself_keeps_the_correction():
    proposals = [*said("我住在上海。", 1), *said("我搬到柏林了。", 2)]
    first, second = merge_in_order(proposals, [], POLICY)
    assert second.decision is Decision.SUPERSEDED
    assert second.retired[0].id == first.memory_id == second.superseded_id
    assert second.inserted.value == "berlin"


# --- the rules one by one ---------------------------------------------------------------------------------------------

HOME = {"subject": "home", "exclusive": True, "kind": Kind.PROFILE}


@pytest.mark.parametrize(
    ("new", "old", "outcome", "reason"),
    [
        pytest.param(
            candidate("User lives in Bonn.", value="bonn", **HOME),
            known("User lives in Rome.", value="rome", **HOME),
            Outcome.SUPERSEDE,
            MergeReason.CHANGED_VALUE,
            id="one value at a time",
        ),
        pytest.param(
            candidate("User's child is Tom.", subject="child", value="tom"),
            known("User's child is Ann.", subject="child", value="ann"),
            Outcome.STORE,
            MergeReason.NEW,
            id="values side by side",
        ),
        pytest.param(
            candidate("孩子不叫安，叫汤姆", subject="child", value="tom", retracts="ann", corrects=True),
            known("孩子叫安", subject="child", value="ann"),
            Outcome.SUPERSEDE,
            MergeReason.RETRACTED_VALUE,
            id="not A, but B",
        ),
        pytest.param(
            candidate("User does not live in Rome any more.", retracts="rome", **HOME),
            known("User lives in Rome.", value="rome", **HOME),
            Outcome.SUPERSEDE,
            MergeReason.RETRACTED_VALUE,
            id="not A, and nothing instead",
        ),
        pytest.param(
            candidate("孩子不叫安，叫汤姆", subject="child", value="tom", retracts="ann"),
            known("孩子叫丽", subject="child", value="li"),
            Outcome.STORE,
            MergeReason.NEW,
            id="takes back something else",
        ),
        pytest.param(
            candidate("User lives in Bonn.", **HOME),
            known("User lives in Rome.", value="rome", **HOME),
            Outcome.STORE,
            MergeReason.NEW,
            id="a value that nobody could name retires nothing",
        ),
        pytest.param(
            candidate("The user's member number is A-17!"),
            known("the user's member number is a-17"),
            Outcome.CONFIRM,
            MergeReason.SAME_TEXT,
            id="same text but for case and points",
        ),
        pytest.param(
            candidate("用户的会员号是A-17"),
            known("用户的会员号是A-71"),
            Outcome.STORE,
            MergeReason.NEW,
            id="another number",
        ),
        pytest.param(
            candidate("用户能吃辣", Kind.CONSTRAINT),
            known("用户不能吃辣", kind=Kind.CONSTRAINT),
            Outcome.SUPERSEDE,
            MergeReason.CONTRADICTED,
            id="the same sentence without its denial",
        ),
        pytest.param(
            candidate("The user likes horror films.", Kind.PREFERENCE),
            known("The user hates horror films.", kind=Kind.PREFERENCE),
            Outcome.SUPERSEDE,
            MergeReason.CONTRADICTED,
            id="liking turned round",
        ),
        pytest.param(
            candidate("The user likes horror films at night.", Kind.PREFERENCE),
            known("The user hates driving at night.", kind=Kind.PREFERENCE),
            Outcome.STORE,
            MergeReason.NEW,
            id="liking one thing, hating another",
        ),
        pytest.param(
            candidate("The user's locker is number 14.", corrects=True),
            known("The user's locker is number 41."),
            Outcome.SUPERSEDE,
            MergeReason.CORRECTED,
            id="a correction of the same sentence",
        ),
        pytest.param(
            candidate("用户的储物柜是14号", corrects=True),
            known("用户的车位是41号"),
            Outcome.STORE,
            MergeReason.NEW,
            id="a correction of another sentence",
        ),
        pytest.param(
            candidate("The user ran 10 km.", Kind.EPISODE, corrects=True),
            known("The user ran 5 km.", kind=Kind.EPISODE),
            Outcome.STORE,
            MergeReason.NEW,
            id="events are not corrected by likeness",
        ),
        pytest.param(
            candidate("The user can swim.", Kind.FACT),
            known("The user cannot swim.", kind=Kind.CONSTRAINT),
            Outcome.STORE,
            MergeReason.NEW,
            id="another kind",
        ),
        pytest.param(
            candidate("User likes tea.", subject="preference:tea", value="like", exclusive=True),
            known("User likes tea time.", subject="preference:tea time", value="like", exclusive=True),
            Outcome.STORE,
            MergeReason.NEW,
            id="two attributes, however alike",
        ),
        pytest.param(
            candidate("User likes tea."),
            known("User likes tea.", status=Status.OUTDATED),
            Outcome.STORE,
            MergeReason.NEW,
            id="what is outdated is not confirmed",
        ),
        pytest.param(
            candidate("用户喜欢茶"),
            known("用户喜欢茶", status=Status.PENDING),
            Outcome.CONFIRM,
            MergeReason.SAME_TEXT,
            id="pending counts",
        ),
    ],
)
def test_l5_l6_one_entry(new, old, outcome, reason):
    merged = decide(new, old)
    assert (merged.outcome, merged.reason) == (outcome, reason)
    assert merged.target == (old if outcome is Outcome.CONFIRM else None)
    assert merged.retires == ((old,) if outcome is Outcome.SUPERSEDE else ())


@pytest.mark.parametrize(
    ("new", "old", "cosine", "outcome"),
    [
        # other words for the same: vectors and words together reach the probability
        ("用户在一家物流公司上班。", "用户任职于一家物流公司。", 0.98, Outcome.CONFIRM),
        (
            "The user plays badminton each Wednesday evening.",
            "The user plays badminton every Wednesday evening.",
            0.985,
            Outcome.CONFIRM,
        ),
        # without vectors the words have to do it alone
        ("The user's mum lives in Bath.", "The user's mother lives in Bath.", None, Outcome.CONFIRM),
        # near as they are, these say different things
        ("用户每天早上七点起床。", "用户每天早上六点起床。", 0.995, Outcome.STORE),
        ("The user's budget is 3000.", "The user's budget is 2000.", 0.999, Outcome.STORE),
        ("The user's mother lives in Bath.", "The user's father lives in Bath.", 0.99, Outcome.STORE),
        ("The user plays chess with Anna.", "The user plays chess with Berta.", 0.99, Outcome.STORE),
        ("用户养了一只叫豆豆的猫。", "用户养了一只叫毛毛的猫。", 0.99, Outcome.STORE),
        ("用户坐靠窗的座位。", "用户坐过道的座位。", 0.99, Outcome.STORE),
        ("用户的老板姓王，常驻新加坡。", "用户的老板姓陈，常驻新加坡。", 0.99, Outcome.STORE),
        ("The user's laptop bag is canvas.", "The user's laptop bag is leather.", 0.99, Outcome.STORE),
        # alike in vectors only
        ("The user has a cat.", "The user went to a fair.", 0.88, Outcome.STORE),
        ("用户住在杭州西湖区。", "用户喜欢看科幻小说。", 0.80, Outcome.STORE),
        ("The user.", "The user is.", 0.88, Outcome.STORE),
    ],
)
def test_l5_likeness_confirms_only_where_nothing_tells_the_two_apart(new, old, cosine, outcome):
    assert decide(candidate(new), known(old), cosine=cosine).outcome is outcome


def test_l5_the_likeliest_of_several_is_confirmed_and_a_certain_one_before_any():
    alike = known("The user's mother lives in Bath, near the river.", "far")
    liker = known("The user's mum lives in Bath.", "near")
    new = candidate("The user's mother lives in Bath.")
    assert decide(new, alike, liker).target == liker
    exact = known("the user's mother lives in Bath", "exact")
    assert decide(new, alike, liker, exact).target == exact
    named = known("Mother: Bath", "named", subject="mother's home", value="bath")
    assert decide(replace(new, subject="mother's home", value="bath"), exact, named).target == named


@pytest.mark.parametrize(
    ("kind", "first_day", "second_day", "outcome"),
    [
        (Kind.EPISODE, datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 4, 6, tzinfo=UTC), Outcome.STORE),
        (Kind.EPISODE, datetime(2026, 3, 2, 1, tzinfo=UTC), datetime(2026, 3, 2, 9, tzinfo=UTC), Outcome.CONFIRM),
        (Kind.TASK_RESULT, None, None, Outcome.STORE),  # said on different days, of the day when it was said
        (Kind.FACT, datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 4, 6, tzinfo=UTC), Outcome.STORE),
        (Kind.FACT, datetime(2026, 3, 2, tzinfo=UTC), None, Outcome.CONFIRM),
        (Kind.FACT, None, None, Outcome.CONFIRM),
    ],
)
@pytest.mark.parametrize("text", ["用户去看了牙医", "The user went to the dentist."])
def test_p10_the_same_text_on_another_date_is_another_entry(text, kind, first_day, second_day, outcome):
    old = known(text, kind=kind, valid_from=first_day)
    assert decide(candidate(text, kind, valid_from=second_day), old).outcome is outcome


def test_p10_days_are_the_users():
    old = known("用户跑了马拉松", kind=Kind.EPISODE, valid_from=datetime(2026, 3, 2, 15, tzinfo=UTC))
    new = candidate("用户跑了马拉松", Kind.EPISODE, valid_from=datetime(2026, 3, 2, 17, tzinfo=UTC))
    assert decide(new, old).outcome is Outcome.CONFIRM
    assert (
        decide(new, old, zone=timezone(timedelta(hours=8))).outcome is Outcome.STORE
    )  # midnight in Shanghai lies between


def test_p10_a_home_with_two_dates_is_still_one_home():
    old = known("User has lived in Bonn since 2019.", valid_from=datetime(2019, 1, 1, tzinfo=UTC), value="bonn", **HOME)
    new = candidate(
        "User has lived in Bonn since 2020.", valid_from=datetime(2020, 1, 1, tzinfo=UTC), value="bonn", **HOME
    )
    assert decide(new, old).reason is MergeReason.SAME_VALUE


def test_l6_every_other_value_of_one_attribute_goes_the_newest_named_first():
    rome = known("Rome", "rome", value="rome", updated_at=SAID, **HOME)
    oslo = known("Oslo", "oslo", value="oslo", updated_at=SAID + timedelta(days=1), **HOME)
    merged = decide(candidate("Bonn", value="bonn", **HOME), rome, oslo)
    assert merged.retires == (oslo, rome)
    settled = settle(candidate("Bonn", value="bonn", **HOME), merged, origin(), POLICY)
    assert settled.inserted.supersedes == settled.superseded_id == "oslo"
    assert [m.status for m in settled.retired] == [Status.OUTDATED] * 2


def test_l6_a_confirmation_may_retire_as_well():
    peanut = known("用户对花生过敏", "p", subject="allergy", value="peanut")
    shrimp = known("用户对虾过敏", "s", subject="allergy", value="shrimp")
    new = candidate(
        "用户不是对花生过敏，是对虾过敏", subject="allergy", value="shrimp", retracts="peanut", corrects=True
    )
    merged = decide(new, peanut, shrimp)
    assert (merged.outcome, merged.target, merged.retires) == (Outcome.CONFIRM, shrimp, (peanut,))
    settled = settle(new, merged, origin(), POLICY)
    assert [m.id for m in settled.changed] == ["p", "s"]


@pytest.mark.parametrize(
    ("existing", "supersedes"),
    [
        (["favourite:player"], True),
        (["favourite:player", "favourite:player"], True),
        (["favourite:player", "favourite:book"], False),  # of which? nobody can tell
        (["favourite:player", "favourite"], False),
        (["favouritism"], False),
        ([], False),
    ],
)
def test_p7_a_correction_that_leaves_out_the_attribute_means_the_one_that_is_known(existing, supersedes):
    new = candidate("我现在最喜欢梅西", subject="favourite", value="messi", exclusive=True, corrects=True)
    entries = [
        known("x", f"m{i}", subject=s, value="messi" if s == "favourite" else "ronaldo", exclusive=True)
        for i, s in enumerate(existing)
    ]
    assert (decide(new, *entries).outcome is Outcome.SUPERSEDE) is supersedes
    assert (
        decide(replace(new, corrects=False), *[e for e in entries if e.subject != "favourite"]).outcome is Outcome.STORE
    )


# --- who says it ------------------------------------------------------------------------------------------------------


def test_l4_a_models_guess_retires_nothing_that_was_said():
    old = known("User lives in Rome.", value="rome", **HOME)
    guess = candidate("User lives in Bonn.", value="bonn", source=Source.MODEL, **HOME)
    merged = decide(guess, old)
    assert (merged.outcome, merged.reason) == (Outcome.REFUSE, MergeReason.INFERENCE)
    settled = settle(guess, merged, origin(), POLICY)
    assert (settled.decision, settled.changed, settled.memory_id) == (Decision.REJECTED, (), None)
    assert decide(guess, replace(old, source=Source.MODEL)).outcome is Outcome.SUPERSEDE


def test_l4_a_models_agreement_changes_neither_wording_nor_confidence_and_a_users_makes_a_guess_his_own():
    old = known("User lives in Rome.", value="rome", **HOME)
    guess = candidate("The user's home is Rome.", value="rome", source=Source.MODEL, **HOME)
    agreed = settle(guess, decide(guess, old), origin(), POLICY).confirmed
    assert (agreed.content, agreed.confidence, agreed.source, agreed.hit_count) == (
        old.content,
        old.confidence,
        Source.USER,
        2,
    )
    word = replace(guess, source=Source.USER)
    confirmed = settle(word, decide(word, replace(old, source=Source.MODEL)), origin(), POLICY).confirmed
    assert (confirmed.source, confirmed.content) == (Source.USER, word.content)


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_l5_a_new_entry_starts_with_the_policys_confidence_and_its_provenance():
    new = candidate(
        "用户住在波恩", language="zh", importance=0.7, value="bonn", entities=("波恩",), metadata={"a": 1}, **HOME
    )
    settled = settle(new, decide(new), origin(7, context_turn_ids=("t6",)), POLICY)
    entry = settled.inserted
    assert settled.decision is Decision.STORED and settled.changed == (entry,)
    assert (entry.id, entry.user_id, entry.session_id) == ("m7", "u", "s")
    assert (entry.turn_ids, entry.context_turn_ids) == (("t7",), ("t6",))
    assert (entry.confidence, entry.hit_count, entry.version, entry.status) == (0.6, 1, 1, Status.ACTIVE)
    assert (entry.created_at, entry.updated_at, entry.valid_from, entry.supersedes) == (LATER, LATER, None, None)
    assert (entry.subject, entry.value, entry.exclusive, entry.language) == ("home", "bonn", True, "zh")
    assert (entry.entities, entry.metadata, entry.importance) == (("波恩",), {"a": 1}, 0.7)


def test_l5_a_confirmation_takes_the_newer_wording_and_keeps_the_interval():
    old = known(
        "User lives in Bonn.",
        value="bonn",
        valid_from=SAID,
        confidence=0.95,
        entities=("Bonn",),
        turn_ids=("t0",),
        **HOME,
    )
    new = candidate("用户住在波恩", language="zh", importance=0.9, value="bonn", entities=("波恩",), **HOME)
    entry = settle(new, decide(new, old), origin(context_turn_ids=("t9",)), POLICY).confirmed
    assert (entry.id, entry.content, entry.language, entry.version) == ("old", "用户住在波恩", "zh", 2)
    assert (entry.confidence, entry.hit_count, entry.importance) == (1.0, 2, 0.9)
    assert (entry.valid_from, entry.valid_to, entry.created_at, entry.updated_at) == (SAID, None, old.created_at, LATER)
    assert (entry.turn_ids, entry.context_turn_ids, entry.entities) == (("t0", "t1"), ("t9",), ("Bonn", "波恩"))
    same_words = replace(new, content=old.content)
    assert settle(same_words, decide(same_words, old), origin(), POLICY).confirmed.version == 1


@pytest.mark.parametrize(
    ("old_from", "new_from", "ends"),
    [
        (None, None, LATER),
        (None, SAID, SAID),
        (SAID, SAID + timedelta(days=3), SAID + timedelta(days=3)),
        (SAID, SAID - timedelta(days=3), LATER),  # cannot end before it began
    ],
)
def test_l6_the_old_entry_keeps_its_interval(old_from, new_from, ends):
    old = known("Rome", value="rome", valid_from=old_from, **HOME)
    new = candidate("Bonn", value="bonn", valid_from=new_from, **HOME)
    (retired,) = settle(new, decide(new, old), origin(), POLICY).retired
    assert (retired.status, retired.valid_from, retired.valid_to) == (Status.OUTDATED, old_from, ends)
    assert (retired.content, retired.version, retired.confidence) == (old.content, old.version, old.confidence)


def test_l17_under_review_nothing_counts_or_goes_before_it_is_approved():
    old = known("Rome", value="rome", **HOME)
    new = candidate("Bonn", value="bonn", **HOME)
    settled = settle(new, decide(new, old), origin(), POLICY, review=True)
    assert (settled.decision, settled.inserted.status, settled.retired) == (Decision.WAITING, Status.PENDING, ())
    assert settled.inserted.supersedes == "old"
    again = candidate("User's home: Rome", value="rome", **HOME)
    confirmed = settle(again, decide(again, old), origin(), POLICY, review=True).confirmed
    assert (confirmed.content, confirmed.hit_count) == ("Rome", 2)


def test_p34_a_retried_request_changes_nothing():
    first = merge_in_order(said("我住在上海。", 1), [], POLICY)[0].inserted
    moved = said("我搬到柏林了。", 2)
    (done,) = merge_in_order(moved, [first], POLICY)
    (again,) = merge_in_order(moved, [*done.retired, done.inserted], POLICY)
    assert (again.decision, again.reason, again.changed) == (Decision.STORED, MergeReason.ALREADY_STORED, ())
    assert again.memory_id == done.memory_id
    confirming = said("我住在柏林。", 3)
    (confirmed,) = merge_in_order(confirming, [done.inserted], POLICY)
    (twice,) = merge_in_order(confirming, [confirmed.confirmed], POLICY)
    assert (twice.decision, twice.changed) == (Decision.CONFIRMED, ())


def test_p34_a_late_retry_does_not_turn_the_clock_back():
    rome, again, bonn = said("I live in Rome.", 1), said("I reside in Rome.", 2), said("I live in Bonn.", 3)
    store: dict = {}
    for turn in (rome, again, bonn):
        for result in merge_in_order(turn, list(store.values()), POLICY):
            store.update((m.id, m) for m in result.changed)
    before = dict(store)
    for turn in (rome, again):
        (result,) = merge_in_order(turn, list(store.values()), POLICY)
        assert (result.reason, result.changed) == (MergeReason.ALREADY_STORED, ())
    assert store == before
    # said anew, it is news
    (moved_back,) = merge_in_order(said("I live in Rome.", 4), list(store.values()), POLICY)
    assert (moved_back.decision, moved_back.inserted.value) == (Decision.SUPERSEDED, "rome")


def test_cosines_are_asked_for_by_proposal_and_entry():
    old = known("用户任职于一家物流公司。")
    new = candidate("用户在一家物流公司上班。")
    asked = []

    def cosine(number, memory_id):
        asked.append((number, memory_id))
        return 0.99

    settled = merge_in_order([(candidate("无关的事"), origin(1)), (new, origin(2))], [old], POLICY, E5, cosine=cosine)
    assert settled[1].reason is MergeReason.SAME_FACT
    assert set(asked) == {(0, "old"), (1, "old"), (1, "m1")}


# --- properties -------------------------------------------------------------------------------------------------------

SUBJECTS = st.sampled_from([None, "home", "child", "preference:tea"])
VALUES = st.sampled_from([None, "a", "b", "2000元", "两千元"])
CONTENTS = st.sampled_from(
    ["用户喝茶", "用户不喝茶", "User has 2 cats.", "User has 3 cats.", "The user likes tea.", "The user hates tea.", ""]
)


@st.composite
def candidates(draw):
    return Candidate(
        draw(CONTENTS),
        draw(st.sampled_from([Kind.FACT, Kind.EPISODE])),
        draw(st.sampled_from(Source)),
        subject=draw(SUBJECTS),
        value=draw(VALUES),
        retracts=draw(VALUES),
        exclusive=draw(st.booleans()),
        corrects=draw(st.booleans()),
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(candidates(), min_size=1, max_size=3), max_size=6), st.booleans())
def test_whatever_is_said_nothing_is_lost_and_a_replay_changes_nothing(days, review):
    store: dict = {}
    for day, turn in enumerate(days):
        proposals = [
            (one, origin(day * 10 + i, SAID + timedelta(days=day), turn_ids=(f"t{day}",))) for i, one in enumerate(turn)
        ]
        before = dict(store)
        for result in merge_in_order(proposals, list(store.values()), POLICY, review=review):
            store.update((m.id, m) for m in result.changed)
        assert set(before) <= set(store)  # entries are retired, never removed
        for old_id, old in before.items():
            assert store[old_id].created_at == old.created_at
            assert store[old_id].turn_ids[: len(old.turn_ids)] == old.turn_ids
            assert old.status is not Status.OUTDATED or store[old_id] == old
        replay = merge_in_order(proposals, list(store.values()), POLICY, review=review)
        assert all(result.inserted is None or result.inserted.id not in store for result in replay)
    for entry in store.values():
        assert 0 < entry.confidence <= 1
        assert entry.valid_to is None or entry.status is Status.OUTDATED
    lasting = [m for m in active(store.values()) if m.subject and m.value and m.kind is Kind.FACT]
    by_attribute = [(m.subject, m.value) for m in lasting]
    assert len(by_attribute) == len(set(by_attribute))  # one live entry for one value
