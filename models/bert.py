"""BERT's class of encoders, without what their modelling code spends on getting there.

The same arithmetic as transformers' BertModel and (XLM-)RobertaModel: learned positions, attention both ways, norms after each
half of a layer. Query, key and value are one product, weights are laid out once as the CPU's matrix library wants them, and the
texts of a batch can stand one behind the other without padding. Whoever builds one compares it with the original (models/choosing.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

_POSITIONS_FROM_ZERO = {"BertModel"}
_POSITIONS_BEHIND_PADDING = {"RobertaModel", "XLMRobertaModel", "CamembertModel"}
_PRODUCTS_FROM = 96
"""From so many tokens in a group on, plain matrix products beat the fused attention in bfloat16 on a CPU."""

Run = tuple[int, int]
"""So many texts of so many tokens each, one behind the other."""


class _Linear:
    """`activation(x @ weight.T + bias)`. `gelu` is fused into the product where the operator for it is there."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: str = "") -> None:
        self._bias = bias
        self._fused = activation if activation in {"gelu", "relu"} else ""
        self._activate: Callable[[Tensor], Tensor] | None = ACT2FN[activation] if activation else None
        self._packed = _prepacked(weight, bias)
        self._weight = weight if self._packed is None else None

    def __call__(self, x: Tensor) -> Tensor:
        if self._packed is None:
            assert self._weight is not None
            y = functional.linear(x, self._weight, self._bias)
        else:
            y = _product(x, self._packed, self._bias, self._fused)
            if self._fused:
                return y
        return self._activate(y) if self._activate else y


def _product(x: Tensor, packed: Tensor, bias: Tensor, activation: str) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(
        x, packed, bias, activation or "none", [], "none" if activation == "gelu" else ""
    )
    return y


def _prepacked(weight: Tensor, bias: Tensor) -> Tensor | None:
    """The weight as oneDNN lays it out for itself; None where this torch or this device has not the operators, which are the
    compiler's own and no public ones."""
    if weight.device.type != "cpu":
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
        _product(torch.zeros(1, weight.shape[1], dtype=weight.dtype), packed, bias, "gelu")
    except (RuntimeError, AttributeError, TypeError):
        return None
    return packed


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class _Layer:
    query_key_value: _Linear
    attended: _Linear
    attended_norm: _Norm
    widen: _Linear
    narrow: _Linear
    norm: _Norm


class BertPass:
    """The forward pass of one network in one number format. Holds copies of the weights, or the weights where they are so already."""

    def __init__(self, network: nn.Module, dtype: torch.dtype) -> None:
        """`network` is one that `knows` accepts."""
        parts: Any = network
        config = parts.config
        self.heads = int(config.num_attention_heads)
        self.dtype = dtype

        def of(parameter: Tensor) -> Tensor:
            return parameter.detach().to(dtype).contiguous()

        def norm(module: Any) -> _Norm:
            return _Norm(of(module.weight), of(module.bias), float(module.eps))

        def linear(*modules: Any, activation: str = "") -> _Linear:
            weight = torch.cat([module.weight for module in modules]) if len(modules) > 1 else modules[0].weight
            bias = torch.cat([module.bias for module in modules]) if len(modules) > 1 else modules[0].bias
            return _Linear(of(weight), of(bias), activation)

        embeddings = parts.embeddings
        begin = 0 if type(network).__name__ in _POSITIONS_FROM_ZERO else int(embeddings.padding_idx) + 1
        self._words = of(embeddings.word_embeddings.weight)
        self._positions = of(embeddings.position_embeddings.weight[begin:])
        self._types = of(embeddings.token_type_embeddings.weight)
        self._norm = norm(embeddings.LayerNorm)
        self._layers = [
            _Layer(
                linear(layer.attention.self.query, layer.attention.self.key, layer.attention.self.value),
                linear(layer.attention.output.dense),
                norm(layer.attention.output.LayerNorm),
                linear(layer.intermediate.dense, activation=str(config.hidden_act)),
                linear(layer.output.dense),
                norm(layer.output.LayerNorm),
            )
            for layer in parts.encoder.layer
        ]

    @staticmethod
    def knows(network: nn.Module) -> bool:
        """Whether this is a network of a class that is run here."""
        config: Any = network.config
        return (
            type(network).__name__ in _POSITIONS_FROM_ZERO | _POSITIONS_BEHIND_PADDING
            and not config.is_decoder
            and isinstance(config.hidden_act, str)
            and getattr(config, "position_embedding_type", "absolute") in (None, "absolute")
        )

    @torch.inference_mode()
    def packed(
        self, ids: Tensor, positions: Tensor, types: Tensor, runs: Sequence[Run], first: Tensor | None = None
    ) -> Tensor:
        """Texts one behind the other, those of equal length together as `runs` says: [tokens] three times -> [tokens, dimension].

        With `first` (the index of each text's first token), the last layer goes on with these alone: [texts, dimension].
        """
        return self._through(self._embedded(ids, positions, types), lambda heads: self._within(heads, runs), first)

    @torch.inference_mode()
    def padded(self, ids: Tensor, types: Tensor, attention: Tensor, /) -> Tensor:
        """[texts, tokens] three times, `attention` bool and true somewhere in each row -> [texts, tokens, dimension]. Fixed shapes and no
        look at what is in them: it can be recorded once and replayed."""
        texts, tokens = ids.shape
        positions = torch.arange(tokens, device=ids.device).repeat(texts)
        mask = attention[:, None, None, :]

        def attend(heads: Tensor) -> Tensor:
            query, key, value = heads.view(texts, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            return mixed.transpose(1, 2).reshape(texts * tokens, -1)

        hidden = self._through(self._embedded(ids.flatten(), positions, types.flatten()), attend, None)
        return hidden.view(texts, tokens, -1)

    def _embedded(self, ids: Tensor, positions: Tensor, types: Tensor) -> Tensor:
        words = functional.embedding(ids, self._words)
        return self._norm(
            words + functional.embedding(types, self._types) + functional.embedding(positions, self._positions)
        )

    def _through(self, x: Tensor, attend: Callable[[Tensor], Tensor], first: Tensor | None) -> Tensor:
        for layer in self._layers:
            mixed = attend(layer.query_key_value(x))
            if first is not None and layer is self._layers[-1]:
                mixed, x = mixed[first], x[first]
            x = layer.attended_norm(layer.attended(mixed) + x)
            x = layer.norm(layer.narrow(layer.widen(x)) + x)
        return x

    def _within(self, heads: Tensor, runs: Sequence[Run]) -> Tensor:
        """Attention of each text to itself alone."""
        mixed, at = [], 0
        for texts, tokens in runs:
            part = heads[at : at + texts * tokens]
            at += texts * tokens
            query, key, value = part.view(texts, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            if self.dtype == torch.bfloat16 and texts * tokens >= _PRODUCTS_FROM:
                scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
                one = scores.softmax(dim=-1) @ value
            else:
                one = functional.scaled_dot_product_attention(query, key, value)
            mixed.append(one.transpose(1, 2).reshape(texts * tokens, -1))
        return torch.cat(mixed) if len(mixed) > 1 else mixed[0]
