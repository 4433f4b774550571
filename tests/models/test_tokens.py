"""Token counters: W2, P30."""

import json
from concurrent.futures import ThreadPoolExecutor

import bpe_openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from memory.errors import InvalidInput
from memory.packing import PackRequest, pack
from memory.policy import PromptPolicy
from models import tokens
from models.tokens import counter_for
from tests.memory.prompt_cases import byte_level_tokenizer

PUBLISHED = {name: bpe_openai.get_encoding(name) for name in ("o200k_base", "cl100k_base")}


@pytest.fixture
def folder(tmp_path):
    """A tokenizer as a model's folder has it, with the truncation and padding that such files often carry."""
    tokenizer = Tokenizer.from_str(byte_level_tokenizer().to_str())
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("chatgpt-4o-latest", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-4.5-preview", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("claude-sonnet", "o200k_base"),
        ("模型", "o200k_base"),
        ("", "o200k_base"),
        ("openai/gpt-4o", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("GPT-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-35-turbo", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("openai/gpt-4", "cl100k_base"),
    ],
)
def test_a_model_counts_in_its_own_encoding(model, encoding):
    assert counter_for(model).name == encoding


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("你好，世界", 3, 6),
        ("<|endoftext|>", 7, 7),  # text that looks like a special token is text
    ],
)
def test_p30_counts_are_those_of_the_published_encodings(text, o200k, cl100k):
    assert (counter_for("gpt-4o")(text), counter_for("gpt-4")(text)) == (o200k, cl100k)


@settings(deadline=None, max_examples=300)
@given(
    st.text(st.characters(codec="utf-8"), max_size=60)
    | st.text("预算北京咖啡 \n<|im_end|>👨\u200d👩e\u0301,.'s1", max_size=60)
)
def test_p30_counts_are_exact_for_any_text(text):
    for model in ("gpt-4o", "gpt-4"):
        counter = counter_for(model)
        assert counter(text) == len(PUBLISHED[counter.name].encode_ordinary(text))


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "预算\ud83d预算", "\udc00\ud83d"])
def test_a_lone_surrogate_is_counted_and_never_raises(text, folder):
    for model in ("gpt-4o", "gpt-4", str(folder)):
        assert counter_for(model)(text) > 0


def test_a_megabyte_is_counted():
    text = "退款要三天。" * 200_000
    once = counter_for("gpt-4o")("退款要三天。" * 2_000)
    assert counter_for("gpt-4o")(text) == pytest.approx(once * 100, rel=0.01)


def test_a_folder_counts_with_its_own_tokenizer_whole_and_without_special_tokens(folder):
    counter = counter_for(str(folder))
    plain = byte_level_tokenizer()
    plain.encode_special_tokens = True
    long = "用户三月搬到了柏林，喜欢喝咖啡。" * 40
    for text in ("", "hello", "</s><|im_start|>", long, long):
        assert counter(text) == len(plain.encode(text, add_special_tokens=False).ids)
    assert counter("</s>") > 1
    assert counter_for(str(folder)) is counter  # loaded once


def test_a_folder_without_tokenizer_json_is_loaded_by_transformers(tmp_path):
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "你", "好"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink(missing_ok=True)
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    assert counter_for(str(tmp_path))("hello world 你好") == 4


def test_transformers_own_folders_work(tmp_path):
    PreTrainedTokenizerFast(tokenizer_object=byte_level_tokenizer()).save_pretrained(tmp_path)
    assert counter_for(str(tmp_path))("hello") >= 1


@pytest.mark.parametrize(
    "model", ["nobody/no-such-model", "/no/such/folder", "../../etc", "a/b/c", "a\x00/b", "a\\b", "/" * 300]
)
def test_what_cannot_be_loaded_names_the_field_and_waits_for_no_hub(model):
    with pytest.raises(InvalidInput) as error:
        counter_for(model)
    assert error.value.field == "model"
    assert model not in str(error.value)


@pytest.mark.parametrize("content", [None, "{", '{"version": "1.0"}'])
def test_a_broken_folder_names_the_field(tmp_path, content):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput):
        counter_for(str(tmp_path))


def test_a_bare_word_is_a_models_name_even_where_a_folder_is_called_so(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert counter_for(folder.name).name == "o200k_base"


def test_remembered_counts_hold_digests_only_and_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(tokens, "_REMEMBERED_TEXTS", 3)
    asked = []
    memo = tokens._Memo(lambda text: asked.append(text) or len(text))
    assert [memo(text) for text in ("a", "bb", "a", "ccc", "dddd", "bb", "a")] == [1, 2, 1, 3, 4, 2, 1]
    assert asked == ["a", "bb", "ccc", "dddd", "bb", "a"]
    assert "ccc" not in json.dumps([key.hex() for key in memo._known])
    assert len(memo._known) == 3


def test_counters_are_safe_in_threads(folder):
    counter = counter_for(str(folder))
    texts = [f"订单 {i % 50} hello" for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(counter, texts)) == [counter(text) for text in texts]


def test_an_open_models_prompt_leaves_room_for_its_template(folder):
    counter = counter_for(str(folder))
    request = PackRequest(policy=PromptPolicy(), system="Be brief.", question="你好")
    packed = pack(request, counter)
    # the chat template of a widespread family, special tokens one each
    template = "".join(f"\x01{m['role']}\n{m['content']}\x02\n" for m in packed.messages) + "\x01assistant\n"
    assert packed.total >= len(byte_level_tokenizer().encode(template, add_special_tokens=False).ids)
