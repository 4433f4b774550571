"""What the gate keeps, as which kind, and why (L1, L3)."""

import pytest

from memory.entry import Kind, Source
from memory.verdict import Reason
from tests.memory.gate.talk import entries, judged

P, C, F, R, T, L = Kind.PREFERENCE, Kind.CONSTRAINT, Kind.FACT, Kind.PROFILE, Kind.TASK_RESULT, Kind.LESSON

KEPT = [
    # preferences
    ("I like tea", P, Reason.PREFERENCE, "The user likes tea."),
    ("I don't like olives.", P, Reason.PREFERENCE, "The user does not like olives."),
    ("My favourite player is Messi", P, Reason.PREFERENCE, "The user's favourite player is Messi."),
    ("Pizza is my favorite food!", P, Reason.PREFERENCE, "Pizza is the user's favorite food."),
    ("I’d rather walk than drive", P, Reason.PREFERENCE, "The user would rather walk than drive."),
    ("Call me Max", P, Reason.PREFERENCE, "The user asks to be called Max."),
    ("I usually take the train to work", P, Reason.PREFERENCE, "The user usually takes the train to work."),
    ("Zero interest in golf", P, Reason.PREFERENCE, "The user has zero interest in golf."),
    ("我喜欢喝乌龙茶。", P, Reason.PREFERENCE, "用户喜欢喝乌龙茶"),
    ("我不喜欢吃辣", P, Reason.PREFERENCE, "用户不喜欢吃辣"),
    ("喜欢爬山", P, Reason.PREFERENCE, "用户喜欢爬山"),
    ("我最喜欢的歌手是周深", P, Reason.PREFERENCE, "用户最喜欢的歌手是周深"),
    ("我对园艺很着迷", P, Reason.PREFERENCE, "用户对园艺很着迷"),
    ("叫我小周就好", P, Reason.PREFERENCE, "用户希望被称呼为小周"),
    # constraints
    ("Never call me before 9 am", C, Reason.CONSTRAINT, "The user asks never to call them before 9 am."),
    ("Don't ever email me at work", C, Reason.CONSTRAINT, "The user asks never to email them at work."),
    ("Don't use any paid APIs", C, Reason.CONSTRAINT, "The user asks not to use any paid APIs."),
    ("Stop sending me newsletters", C, Reason.CONSTRAINT, "The user asks to stop sending them newsletters."),
    ("No emojis in your replies, please", C, Reason.CONSTRAINT, "The user asks for no emojis in the assistant's replies."),
    ("All code must run on Python 3.11", C, Reason.CONSTRAINT, "The user requires that all code must run on Python 3.11."),
    ("I can't eat gluten", C, Reason.CONSTRAINT, "The user cannot eat gluten."),
    ("My budget is $2000", C, Reason.CONSTRAINT, "The user's budget is $2000."),
    ("不要在周末给我打电话", C, Reason.CONSTRAINT, "用户要求不要在周末给用户打电话"),
    ("别再给我推荐恐怖片了", C, Reason.CONSTRAINT, "用户要求别再给用户推荐恐怖片"),
    ("价格必须在两千以内", C, Reason.CONSTRAINT, "用户要求价格必须在两千以内"),
    ("我不吃猪肉", C, Reason.CONSTRAINT, "用户不吃猪肉"),
    ("答案里禁止出现脏话", C, Reason.CONSTRAINT, "用户要求答案里禁止出现脏话"),
    ("咖啡一点都不能碰", C, Reason.CONSTRAINT, "用户咖啡一点都不能碰"),
    ("我的预算是五千", C, Reason.CONSTRAINT, "用户的预算是五千"),
    # asked for
    ("Remember that my car is parked on level 3 at work", F, Reason.EXPLICIT_REQUEST, "The user's car is parked on level 3 at work."),
    ("Remember that my name is Ana", R, Reason.EXPLICIT_REQUEST, "The user's name is Ana."),
    ("Can you remember that I'm vegan?", R, Reason.EXPLICIT_REQUEST, "The user is vegan."),
    ("Remember to always cite your sources", C, Reason.EXPLICIT_REQUEST, "The user asks to always cite the assistant's sources."),
    ("From now on, reply in German", P, Reason.EXPLICIT_REQUEST, "From now on, the user asks to reply in German."),
    ("Use metric units by default", P, Reason.EXPLICIT_REQUEST, "By default, the user asks to use metric units."),
    ("In future never book me a middle seat", C, Reason.EXPLICIT_REQUEST, "In future, the user asks never to book them a middle seat."),
    ("记住，我的会员等级是钻石", F, Reason.EXPLICIT_REQUEST, "用户的会员等级是钻石"),
    ("以后默认寄到公司地址", P, Reason.EXPLICIT_REQUEST, "用户要求以后默认寄到公司地址"),
    ("从现在起用中文回答我", P, Reason.EXPLICIT_REQUEST, "用户要求从现在起用中文回答用户"),
    ("请记一下，门卡在前台王姐那里", F, Reason.EXPLICIT_REQUEST, "门卡在前台王姐那里"),
    # who they are
    ("My name is Zhang Wei", R, Reason.SELF_DESCRIPTION, "The user's name is Zhang Wei."),
    ("I'm Tom", R, Reason.SELF_DESCRIPTION, "The user's name is Tom."),
    ("I live in Lyon", R, Reason.SELF_DESCRIPTION, "The user lives in Lyon."),
    ("I'm a software engineer", R, Reason.SELF_DESCRIPTION, "The user is a software engineer."),
    ("I'm 34", R, Reason.SELF_DESCRIPTION, "The user is 34."),
    ("I was born on 12 May 1990", R, Reason.SELF_DESCRIPTION, "The user was born on 12 May 1990."),
    ("I have a dog named Rex", R, Reason.SELF_DESCRIPTION, "The user has a dog named Rex."),
    ("My daughter's name is Lily", R, Reason.SELF_DESCRIPTION, "The user's daughter's name is Lily."),
    ("I'm a gold member", F, Reason.SELF_DESCRIPTION, "The user is a gold member."),
    ("My email is bo@example.com", F, Reason.SELF_DESCRIPTION, "The user's email is bo@example.com."),
    ("I have a Pixel 8", F, Reason.SELF_DESCRIPTION, "The user has a Pixel 8."),
    ("我叫张三", R, Reason.SELF_DESCRIPTION, "用户的名字是张三"),
    ("我住在北京", R, Reason.SELF_DESCRIPTION, "用户住在北京"),
    ("我女儿叫小雨", R, Reason.SELF_DESCRIPTION, "用户的女儿叫小雨"),
    ("我是一名中学老师", R, Reason.SELF_DESCRIPTION, "用户是一名中学老师"),
    ("我今年28岁", R, Reason.SELF_DESCRIPTION, "用户今年28岁"),
    ("我养了两只狗", R, Reason.SELF_DESCRIPTION, "用户养了两只狗"),
    ("我的手机号是13800138000", F, Reason.SELF_DESCRIPTION, "用户的手机号是13800138000"),
    ("我是白金会员", F, Reason.SELF_DESCRIPTION, "用户是白金会员"),
    # corrections
    ("Actually my name is Anna", R, Reason.CORRECTION, "The user's name is Anna."),
    ("I no longer live in Paris", R, Reason.CORRECTION, "The user no longer lives in Paris."),
    ("I don't like sushi anymore", P, Reason.CORRECTION, "The user does not like sushi anymore."),
    ("I've switched from coffee to tea", P, Reason.CORRECTION, "The user has switched from coffee to tea."),
    ("Update my email to bo@example.com", F, Reason.CORRECTION, "The user's email is bo@example.com."),
    ("现在改喝茶了", P, Reason.CORRECTION, "用户现在改喝茶了"),
    ("把我的邮箱改成 li@example.com", F, Reason.CORRECTION, "用户的邮箱是li@example.com"),
    ("我搬到深圳了", R, Reason.CORRECTION, "用户搬到深圳了"),
    # outcomes and lessons
    ("That fixed it: the cable was loose", T, Reason.OUTCOME, "The user reports what solved the problem: the cable was loose."),
    ("The deployment failed because the disk was full", T, Reason.OUTCOME, "The deployment failed because the disk was full."),
    ("I solved the crash by upgrading the driver", T, Reason.OUTCOME, "The user solved the crash by upgrading the driver."),
    ("Lesson learned: never deploy on a Friday", L, Reason.OUTCOME, "Lesson learned by the user: never deploy on a Friday."),
    ("退款已经到账了", T, Reason.OUTCOME, "退款已经到账了"),
    ("部署成功了，用的是蓝绿发布", T, Reason.OUTCOME, "部署成功了"),
    ("搞定了，换了根网线就通了", T, Reason.OUTCOME, "用户反馈问题已解决：换了根网线就通了"),
    ("教训是上线前一定要先备份数据库", L, Reason.OUTCOME, "用户总结的教训：上线前一定要先备份数据库"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "reason", "content"), KEPT)
def test_kept(text, kind, reason, content):
    first = next(j for j in judged(text) if j.accepted)
    assert (first.candidate.kind, first.reason, first.candidate.content) == (kind, reason, content)
    assert first.candidate.source is Source.USER


ATOMS = [
    ("我叫张三，住在北京，不喜欢吃辣", ["用户的名字是张三", "用户住在北京", "用户不喜欢吃辣"]),
    ("我喜欢喝茶，但是不喜欢喝咖啡", ["用户喜欢喝茶", "用户不喜欢喝咖啡"]),
    ("我喜欢猫但不喜欢狗", ["用户喜欢猫", "用户不喜欢狗"]),
    ("我是素食者，而且对大豆过敏", ["用户是素食者", "用户对大豆过敏"]),
    ("我对花生和虾过敏", ["用户对花生过敏", "用户对虾过敏"]),
    ("我叫陈静 住在深圳", ["用户的名字是陈静", "用户住在深圳"]),
    ("我女儿叫小雨，今年五岁", ["用户的女儿叫小雨", "用户的女儿今年五岁"]),
    (
        "I'm vegetarian and allergic to peanuts, and I live in Lyon",
        ["The user is vegetarian.", "The user is allergic to peanuts.", "The user lives in Lyon."],
    ),
    ("I like tea but not coffee", ["The user likes tea.", "The user does not like coffee."]),
    ("My name is Bo, and I work as a pilot", ["The user's name is Bo.", "The user works as a pilot."]),
    ("I'm allergic to shellfish and latex", ["The user is allergic to shellfish.", "The user is allergic to latex."]),
    ("I live in Cork and work as a nurse", ["The user lives in Cork.", "The user works as a nurse."]),
    ("I like tea, coffee and cake", ["The user likes tea, coffee and cake."]),  # one taste, not three clauses
    ("I love fish and chips", ["The user loves fish and chips."]),
    ("Since I'm vegan, what can I cook?", ["The user is vegan."]),
    ("I'm a nurse; I never eat pork", ["The user is a nurse.", "The user never eats pork."]),
]


@pytest.mark.parametrize(("text", "atoms"), ATOMS)
def test_compound_sentences_become_entries_that_stand_alone(text, atoms):
    assert [entry.content for entry in entries(text)] == atoms


def test_every_clause_gets_its_verdict():
    verdicts = [
        (j.text, j.reason) for j in judged("Hello! I live in Lyon, what's the weather like? My sister is vegetarian.")
    ]
    assert verdicts == [
        ("Hello!", Reason.SMALL_TALK),
        ("I live in Lyon", Reason.SELF_DESCRIPTION),
        ("what is the weather like?", Reason.QUESTION),
        ("My sister is vegetarian.", Reason.THIRD_PARTY),
    ]


def test_what_was_asked_for_counts_more():
    (plain,), (asked,) = entries("My name is Ana"), entries("Remember that my name is Ana")
    assert 0 < plain.importance < asked.importance <= 1


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I like 北京烤鸭", "en"),
        ("我用 Python 3.11，公司在 Google 旁边", "zh"),
        ("我在Google上班", "zh"),
        ("I live in 上海", "en"),
    ],
)
def test_p5_the_entry_stays_in_the_users_language(text, language):
    found = entries(text)
    assert found
    for entry in found:
        assert entry.language == language
        assert ("用户" in entry.content) == (language == "zh")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("My phone number is 555-0134", "555-0134"),
        ("I was born on 12 May 1990", "12 May 1990"),
        ("I don't eat meat", "not"),
        ("我的收货地址是杭州市西湖区文三路 88 号", "杭州市西湖区文三路 88 号"),
        ("我从来不吃内脏", "从来不"),
        ("My name is Zoë O'Neill-Gómez", "Zoë O'Neill-Gómez"),
        ("我每月预算是 3,500.50 元", "3,500.50"),
    ],
)
def test_names_numbers_dates_and_negations_survive(text, kept):
    (entry,) = entries(text)
    assert kept in entry.content
