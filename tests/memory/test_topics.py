"""Topics: the everyday subjects that bridge a dinner and an allergy, Chinese and English."""

import pytest

from memory.terms import terms
from memory.topics import limits, topics


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("推荐一家餐厅", {"food"}),
        ("Where shall we have dinner?", {"food"}),
        ("用户对花生过敏", {"food", "health"}),
        ("The user is vegan.", {"food"}),
        ("帮我订一张机票", {"travel"}),
        ("我的猫叫什么名字", {"pet", "name"}),
        ("Which databases does the project use?", {"code", "work"}),
        ("以后都用中文回答", {"answering", "language"}),
        ("二战是哪年结束的？", set()),
        ("Who wrote Hamlet?", set()),
        ("", set()),
    ],
)
def test_topics(text, found):
    assert topics(terms(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("用户对花生过敏", {"food", "drink"}),
        ("The user is lactose intolerant.", {"food", "drink"}),
        ("用户吃素", {"food"}),
        ("用户膝盖做过手术", {"sport"}),
        ("The user likes sushi.", set()),  # a taste, not a limit
    ],
)
def test_limits(text, found):
    assert limits(terms(text)) == found
