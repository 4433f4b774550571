"""The metrics of `python -m benchmarks.recall`, on sets of our own in the public sets' formats."""

import json

import numpy as np
import pytest

from benchmarks.calibrate import fit, predicted
from benchmarks.datasets import Unit, locomo, madial
from benchmarks.recall import evidence, interval


def test_locomo_units_evidence_and_dropped_questions(tmp_path):
    sample = {
        "sample_id": "s",
        "conversation": {
            "session_1_date_time": "noon",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "The ferry is late."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a grey sea"},
            ],
            "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "It came."}],
        },
        "qa": [
            {"question": "q1", "evidence": ["D1:1; D:1:2"], "category": 1},
            {"question": "q2", "evidence": ["D02:01"], "category": 4},
            {"question": "cites nothing", "evidence": [], "category": 1},
            {"question": "cites what is not there", "evidence": ["D1:1", "D9:9"], "category": 1},
            {"question": "adversarial", "evidence": ["D1:1"], "category": 5},
        ],
    }
    (tmp_path / "locomo.json").write_text(json.dumps([sample]), encoding="utf-8")
    (found,) = locomo(tmp_path)
    assert [unit.text for unit in found.units] == [
        "Ana: The ferry is late.",
        "Bo: Look! [shares image: a grey sea]",
        "Ana: It came.",
    ]
    assert [unit.before for unit in found.units] == [(), ("Ana: The ferry is late.",), ()]  # a session's own turns
    assert {q.text: set(q.gold) for q in found.questions} == {"q1": {"D1:1", "D1:2"}, "q2": {"D2:1"}}


def test_madial_asks_with_the_turns_before_the_test_turn(tmp_path):
    events = [{"7": {"event": "小河学会了游泳。", "user-id": 3, "id": "7"}}]
    dialogue = {
        "dialogue": [
            "<BOD>\n",
            '<小河>:"我想去海边。"\n',
            '<Assistant>:"好主意。"\n',
            '<小河>:"水深吗？"\n',
            "<EOD>\n",
        ],
        "test-turn": [3],
        "relevant-id": [7],
        "user-id": 3,
    }
    (tmp_path / "memory.jsonl").write_text("\n".join(map(json.dumps, events)), encoding="utf-8")
    (tmp_path / "dialogue_dev.jsonl").write_text(json.dumps(dialogue), encoding="utf-8")
    (found,) = madial(tmp_path)
    assert found.units == (Unit("7", "小河学会了游泳。"),)
    assert found.questions[0].text == "我想去海边。\n好主意。"
    assert found.questions[0].gold == {"7"}


@pytest.mark.parametrize(
    ("order", "costs", "expected"),
    [
        ([0, 1, *range(2, 12)], [10] * 12, [1.0, 1.0, 1.0, 1.0]),
        ([*range(2, 8), 0, 1], [10] * 12, [0.0, 1.0, 1.0, 1.0]),
        ([0, 2, 1], [600] * 12, [1.0, 1.0, 1.0, 0.5]),  # the second no longer fits, and nothing after it is tried
        ([], [], [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_share_of_the_gold_at_equal_k_and_within_the_budget(order, costs, expected):
    units = [Unit(str(i), "") for i in range(12)]
    assert evidence(units, order, frozenset({"0", "1"}), costs) == expected


def test_the_interval_holds_the_mean_and_narrows():
    few, many = np.tile([0.0, 1.0], 10), np.tile([0.0, 1.0], 1000)
    assert interval(few)[0] < interval(many)[0] < 0.5 < interval(many)[1] < interval(few)[1]


def test_logistic_regression_recovers_the_weights_that_made_the_data():
    rng = np.random.default_rng(5)
    inputs = [{"x": float(x)} for x in rng.normal(size=20_000)]
    true = {"bias": -1.0, "x": 2.0}
    relevant = (rng.random(20_000) < predicted(inputs, true)).astype(float)
    assert fit(inputs, relevant) == pytest.approx(true, abs=0.1)
