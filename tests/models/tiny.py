"""Tiny models of the real classes with random weights, saved as a trained one would be: what loads them is what loads a large one."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"abcdefghijklmnopqrstuvwxyz0123456789.,?!:' ",
    *"我你他喜欢喝茶咖啡在住北京吗？。，",
]


def save_tokenizer(folder: Path, pairs: bool = True) -> PreTrainedTokenizerFast:
    """A character is a token."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", behavior="isolated")
    if pairs:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="[SEP]",
        model_max_length=128,
    )
    fast.save_pretrained(folder)
    return fast


def bert_config(**options: object) -> BertConfig:
    return BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
        initializer_range=0.5,
        **options,
    )


def save_embedder(folder: Path, hidden_size: int = 16) -> Path:
    torch.manual_seed(3)
    config = bert_config()
    config.hidden_size = hidden_size
    BertModel(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_reranker(folder: Path, labels: int = 1) -> Path:
    torch.manual_seed(4)
    BertForSequenceClassification(bert_config(num_labels=labels)).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_chat_model(folder: Path, template: str | None = None) -> Path:
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer = save_tokenizer(folder, pairs=False)
    if template:
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
    return folder
