"""Language models described by a configuration: numbers and widths of layers, without weights or graph.

``llm:config.json`` is what Hugging Face stores beside a model, ``llm:config.yaml`` may be six numbers written by hand:
layers, hidden, heads, kv_heads, vocab, ffn. Properties of a family that its file omits (GPT-2 ties its embeddings,
Qwen2 has biases on queries, keys and values) are in ``FAMILIES``.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgetune import limits
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError
from edgetune.workloads.foreign_files import model_name
from edgetune.workloads.workload import Workload, WorkloadKind

PREFIX = "llm:"
_MOST_CHARACTERS = 1 << 20
_MOST = 1_000_000_000
"""Limit of the numbers in a configuration and of the file's bytes: far above real ones, far below overflow."""

Norm = Literal["rms", "layer"]


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder-only transformer.

    Args:
        name: Family from ``model_type``; empty without one.
        layers: Blocks of attention and feed-forward network.
        hidden: Width of the residual stream.
        heads, kv_heads: Query heads, and heads of keys and values that they share.
        head_size: Elements of one head.
        ffn: Width of the feed-forward network.
        vocab: Tokens in the vocabulary.
        gated: Whether the feed-forward network has a gate beside its first product (SwiGLU, GeGLU).
        activation: Its activation as an ONNX operator: ``Silu``, ``Gelu`` or ``Relu``.
        norm: ``rms`` or ``layer``.
        norms: Normalisations per layer: 2, or 1 if attention and feed-forward network are parallel.
        tied: Whether the output projection is the embedding table.
        rotary: Whether queries and keys are rotated by position.
        positions: Rows of a learned table of positions; 0 without one.
        qkv_bias, out_bias, ffn_bias, head_bias: Biases of the products.
        qk_norm: Whether each head of queries and keys is normalised.
        window: Most keys that a query attends to; 0 for all.
        weight_bits: Bits per weight of the layers' products if they are quantised in groups; 0 if they are stored at
            the precision of the table.
        group: Number of weights that share a scale.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocab: int
    gated: bool = True
    activation: str = "Silu"
    norm: Norm = "rms"
    norms: int = 2
    tied: bool = False
    rotary: bool = True
    positions: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    ffn_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    window: int = 0
    weight_bits: int = 0
    group: int = 32

    @property
    def parameters(self) -> int:
        """Number of weights; a tied table counts once."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        norm = self.hidden * (2 if self.norm == "layer" else 1)
        attention = self.hidden * (2 * queries + 2 * keys)
        attention += self.qkv_bias * (queries + 2 * keys) + self.out_bias * self.hidden
        attention += self.qk_norm * 2 * self.head_size
        ups = 2 if self.gated else 1
        feed_forward = (ups + 1) * self.hidden * self.ffn + self.ffn_bias * (ups * self.ffn + self.hidden)
        tables = self.vocab * self.hidden * (1 if self.tied else 2) + self.positions * self.hidden
        layer = attention + feed_forward + self.norms * norm
        return self.layers * layer + norm + tables + self.head_bias * self.vocab


_PLAIN: Mapping[str, Any] = {"gated": False, "activation": "Gelu", "norm": "layer"}
_BIASED: Mapping[str, Any] = {"qkv_bias": True, "out_bias": True, "ffn_bias": True}

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "mistral": {"window_key": "sliding_window"},
    "phi3": {"window_key": "sliding_window"},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True, "head_size": 128},
    "gemma": {"activation": "Gelu", "tied": True, "head_size": 256},
    "gpt2": {**_PLAIN, **_BIASED, "tied": True, "rotary": False, "positions_key": "n_positions"},
    "opt": {
        **_PLAIN, **_BIASED, "activation": "Relu", "tied": True, "rotary": False,
        "positions_key": "max_position_embeddings", "positions_more": 2,
    },
    "gpt_neox": {**_PLAIN, **_BIASED},
    "phi": {**_PLAIN, **_BIASED, "norms": 1, "head_bias": True},
}  # fmt: skip
"""Properties that each family's file omits, by ``model_type``; entries of the file override them. Source: configuration
and model classes of Hugging Face transformers; the tests compare published parameter counts of a model of each."""

_KEYS: Mapping[str, tuple[str, ...]] = {
    "layers": ("layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden", "hidden_size", "n_embd", "d_model"),
    "heads": ("heads", "num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab", "vocab_size"),
    "kv_heads": ("kv_heads", "num_key_value_heads", "num_kv_heads"),
    "ffn": ("ffn", "intermediate_size", "n_inner", "ffn_dim"),
    "head_size": ("head_size", "head_dim"),
    **{key: (key,) for key in ("positions", "window", "weight_bits", "group")},
}
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "gated": ("gated",),
    "tied": ("tied", "tie_word_embeddings"),
    "rotary": ("rotary",),
    "qkv_bias": ("qkv_bias", "attention_bias"),
    "out_bias": ("out_bias", "attention_bias"),
    "ffn_bias": ("ffn_bias", "mlp_bias"),
    "qk_norm": ("qk_norm",),
}
_MAY_BE_ZERO = ("positions", "window", "weight_bits")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_ACTIVATIONS: Mapping[str, str] = {"silu": "Silu", "swish": "Silu", "relu": "Relu"}
_WEIGHT_BITS = (0, 2, 3, 4, 8)
_GPTQ_GROUP = 128


def resolve_llm(reference: str) -> Workload:
    """Return the workload named ``llm:FILE``.

    Raises:
        InputError: see ``read_decoder``.
    """
    path = Path(reference[len(PREFIX) :])
    read_decoder(path)
    return Workload(reference, model_name(path), "llm", path, hashlib.sha256(limits.read_file(path)).hexdigest())


KIND = WorkloadKind(resolve_llm, (PREFIX,))


def read_decoder(path: Path) -> Decoder:
    """Return the model that a configuration describes.

    Args:
        path: JSON as Hugging Face exports it, or YAML with the same keys or those of this module.

    Raises:
        InputError: the file is unreadable, is no configuration, describes an encoder or a mixture of experts, or a size
            is missing, invalid or does not fit another.
    """
    return decoder(_read(path), str(path))


def decoder(config: Mapping[str, Any], name: str) -> Decoder:
    """Return the model that the entries of a configuration describe; errors use ``name``.

    Raises:
        InputError: see ``read_decoder``.
    """
    if isinstance(config.get("text_config"), Mapping):
        config = config["text_config"]  # a multimodal model
    _refuse_others(config, name)
    kind = str(config.get("model_type", ""))
    plain = any(key in config for key in ("layer_norm_eps", "layer_norm_epsilon"))
    family = FAMILIES.get(kind, FAMILIES["gpt_neox" if plain else "llama"])
    sizes = {key: _size(config, key, name, family.get(key)) for key in _KEYS}
    for key in ("layers", "hidden", "heads", "vocab"):
        if sizes[key] is None:
            raise InputError(f"{name} does not say {' or '.join(_KEYS[key][:2])}", f"add {key}: a whole number")
    limits.check("layers", sizes["layers"] or 0, name)
    layers, hidden, heads, vocab = (int(sizes[key] or 0) for key in ("layers", "hidden", "heads", "vocab"))
    kv_heads = sizes["kv_heads"] or heads
    if heads % kv_heads or (not sizes["head_size"] and hidden % heads):
        raise InputError(
            f"{name}: {heads} heads, {kv_heads} kv_heads and hidden {hidden} do not divide each other",
            "each key head serves a whole number of query heads; say head_size where it is not hidden / heads",
        )
    bits, group = _quantisation(config, sizes, name)
    rows = _from_key(config, family.get("positions_key"), name)
    act = config.get("hidden_act") or config.get("hidden_activation") or config.get("activation_function")
    return Decoder(
        name=kind,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=sizes["head_size"] or hidden // heads,
        ffn=sizes["ffn"] or 4 * hidden,  # GPT's ratio, the default of an omitted or null entry
        vocab=vocab,
        activation=_ACTIVATIONS.get(str(act), "Gelu") if act else str(family.get("activation", "Silu")),
        norm="layer" if config.get("norm", family.get("norm", "rms")) == "layer" else "rms",
        norms=int(family.get("norms", 2)),
        positions=sizes["positions"] or (rows and rows + int(family.get("positions_more", 0))),
        head_bias=bool(family.get("head_bias", False)),
        window=sizes["window"] or _from_key(config, family.get("window_key"), name),
        weight_bits=bits,
        group=group,
        **_flags(config, family, name),
    )


def _flags(config: Mapping[str, Any], family: Mapping[str, Any], name: str) -> dict[str, bool]:
    found = {}
    for flag, keys in _FLAGS.items():
        default = family.get(flag, flag in ("gated", "rotary"))
        value = next((config[key] for key in keys if config.get(key) is not None), default)
        if not isinstance(value, bool):
            raise InputError(f"{name}: {keys[0]} is {value!r}, neither true nor false", f"{keys[0]}: true")
        found[flag] = value
    return found


def _read(path: Path) -> Mapping[str, Any]:
    import json

    try:
        text = limits.read_file(path).decode("utf-8")
        if len(text) > _MOST_CHARACTERS:
            raise InputError(f"{path} is larger than any model's configuration", "name its config.json")
        found = json.loads(text) if path.suffix == ".json" else load_yaml(text, name=str(path))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}", "llm: takes a model's config.json, or YAML"
        ) from None
    except (ValueError, RecursionError) as error:  # ValueError: JSON, a NUL in the path, no UTF-8
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{path} is neither JSON nor YAML: {lines[0]}", "name a model's config.json") from None
    if not isinstance(found, Mapping):
        raise InputError(f"{path} is not a model's configuration: it has no keys", "e.g. layers: 22")
    return found


def _refuse_others(config: Mapping[str, Any], name: str) -> None:
    """Raise ``InputError`` for any model other than a dense decoder, since its costs would be wrong."""
    experts = next((key for key in _EXPERTS if isinstance(config.get(key), int) and config[key] > 1), None)
    if experts:
        raise InputError(
            f"{name} is a mixture of experts ({experts}: {config[experts]}), which is not modelled",
            "only dense decoders are; costs of its ONNX export are those of its operators",
        )
    kind = str(config.get("model_type", ""))
    if config.get("is_encoder_decoder") or any(word in kind for word in ("bert", "t5", "vit", "clip", "whisper")):
        raise InputError(
            f"{name} is of {kind or 'an encoder-decoder'}, which does not decode token by token alone",
            "export it to ONNX and name that file",
        )


def _size(config: Mapping[str, Any], key: str, name: str, default: int | None) -> int | None:
    for written in _KEYS[key]:
        value = config.get(written)
        if value is not None:
            return _whole(value, written, name, least=0 if key in _MAY_BE_ZERO else 1)
    return default


def _whole(value: object, key: str, name: str, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InputError(f"{name}: {key} is {value!r}, not a whole number from {least} to {_MOST}", f"e.g. {key}: 32")
    return value


def _from_key(config: Mapping[str, Any], key: str | None, name: str) -> int:
    """Return the number under a key that is particular to a family; 0 without such a key."""
    value = config.get(key) if key else None
    return 0 if key is None or value is None else _whole(value, key, name)


def _quantisation(config: Mapping[str, Any], sizes: Mapping[str, int | None], name: str) -> tuple[int, int]:
    """Return bits per weight and weights per scale, from the file's own keys or its ``quantization_config``."""
    stored = config.get("quantization_config")
    stored = stored if isinstance(stored, Mapping) else {}
    bits = sizes["weight_bits"]
    bits = _from_key(stored, "bits", name) if bits is None else bits
    group = sizes["group"] or _from_key(stored, "group_size", name) or (_GPTQ_GROUP if stored else 32)
    if bits not in _WEIGHT_BITS:
        raise InputError(f"{name}: weights of {bits} bits are not modelled", "2, 3, 4 or 8, or leave weight_bits out")
    return bits, group
