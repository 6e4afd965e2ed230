"""Language models from their configuration: published sizes, and prefill and decode against their closed forms."""

from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_graphs import Dims, model, model_table, node

from edgetune.artifacts.ops import OpsTable
from edgetune.errors import InputError
from edgetune.workloads.costs import operator_table
from edgetune.workloads.costs.formulas.attention import visible_pairs
from edgetune.workloads.costs.generation import Lengths, Pass, decoder_conditions, decoder_nodes, open_lengths
from edgetune.workloads.llm import decoder
from edgetune.workloads.resolve import resolve

D = 2  # bytes of a float16
SMALL = {"layers": 3, "hidden": 64, "heads": 8, "kv_heads": 2, "vocab": 1000, "ffn": 160}


def hf(kind: str, layers: int, hidden: int, heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    """A configuration in Hugging Face's words."""
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "vocab_size": vocab,
    } | more


# Parameter counts as published with the models, which are those of their checkpoints.
PUBLISHED = {
    "TinyLlama 1.1B": (1100048384, hf("llama", 22, 2048, 32, 32000, num_key_value_heads=4, intermediate_size=5632)),
    "Llama 2 7B": (6738415616, hf("llama", 32, 4096, 32, 32000, intermediate_size=11008)),
    "Llama 3 8B": (8030261248, hf("llama", 32, 4096, 32, 128256, num_key_value_heads=8, intermediate_size=14336)),
    "Mistral 7B": (7241732096, hf("mistral", 32, 4096, 32, 32000, num_key_value_heads=8, intermediate_size=14336)),
    "Qwen2 0.5B": (
        494032768,
        hf("qwen2", 24, 896, 14, 151936, num_key_value_heads=2, intermediate_size=4864, tie_word_embeddings=True),
    ),
    "Qwen3 0.6B": (
        596049920,
        hf(
            "qwen3", 28, 1024, 16, 151936, num_key_value_heads=8, intermediate_size=3072, tie_word_embeddings=True,
            head_dim=128,
        ),
    ),
    "Gemma 2B": (2506172416, hf("gemma", 18, 2048, 8, 256000, num_key_value_heads=1, intermediate_size=16384)),
    "Phi-3 mini": (3821079552, hf("phi3", 32, 3072, 32, 32064, intermediate_size=8192)),
    "Phi-2": (2779683840, hf("phi", 32, 2560, 32, 51200, intermediate_size=10240)),
    "OPT 125M": (125239296, hf("opt", 12, 768, 12, 50272, ffn_dim=3072, max_position_embeddings=2048)),
    "Pythia 160M": (162322944, hf("gpt_neox", 12, 768, 12, 50304, intermediate_size=3072)),
    "GPT-2": (
        124439808,
        {
            "model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_inner": None,
            "n_positions": 1024,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_the_published_number_of_parameters(name: str) -> None:
    parameters, config = PUBLISHED[name]
    model = decoder(config, name)
    assert model.parameters == parameters
    nodes = decoder_nodes(model, Pass(1, 4, 0), "fp16")
    weights = {
        tensor.name: tensor for node in nodes for tensor in node.inputs if tensor is not None and tensor.constant
    }
    assert sum(tensor.elements for tensor in weights.values()) == parameters


def table(
    folder: Path, config: dict[str, Any], batch_size: int = 1, precision: str = "fp16", **lengths: int
) -> OpsTable:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(config))
    return operator_table(resolve(f"llm:{path}"), "infer", batch_size, precision=precision, dimensions=lengths)


def weights_of_layers(config: dict[str, int]) -> int:
    hidden, size = config["hidden"], config["hidden"] // config["heads"]
    attention = 2 * hidden * hidden + 2 * hidden * config["kv_heads"] * size
    return config["layers"] * (attention + 3 * hidden * config["ffn"])


@pytest.mark.parametrize("n", [1, 3])
def test_prefill_multiplies_every_weight_with_every_token_and_half_the_square_of_scores(tmp_path: Path, n: int) -> None:
    s = 50
    found = table(tmp_path, SMALL, n, tokens=s)
    scores = SMALL["layers"] * SMALL["heads"] * s * (s + 1) // 2
    products = s * weights_of_layers(SMALL) + scores * 2 * 8 + SMALL["vocab"] * SMALL["hidden"]
    assert found.macs == n * products
    conditions = found.header.conditions
    assert [conditions[key] for key in ("phase", "context", "tokens")] == ["prefill", s, n * s]


@pytest.mark.parametrize("n", [1, 3])
def test_decoding_reads_every_weight_once_and_the_whole_cache(tmp_path: Path, n: int) -> None:
    s = 50
    found = table(tmp_path, SMALL, n, past=s)
    head = SMALL["vocab"] * SMALL["hidden"]
    scores = SMALL["layers"] * SMALL["heads"] * (s + 1)
    assert found.macs == n * (weights_of_layers(SMALL) + scores * 2 * 8 + head)
    norms = (2 * SMALL["layers"] + 1) * SMALL["hidden"]
    rows = n * SMALL["hidden"]  # of the embedding, one per sequence
    assert sum(row.weight_bytes for row in found.rows) == D * (weights_of_layers(SMALL) + head + norms + rows)
    (attention,) = {(r.bytes_read, r.bytes_written) for r in found.rows if r.op == "Attention"}
    key_and_value = D * n * 2 * SMALL["kv_heads"] * 8
    query = D * n * SMALL["hidden"]
    assert attention == (query + key_and_value * (1 + s), query + key_and_value)
    conditions = found.header.conditions
    assert [conditions[key] for key in ("phase", "context", "tokens")] == ["decode", s, n]


def test_grouped_heads_shrink_the_cache_and_not_the_scores(tmp_path: Path) -> None:
    shared, own = (table(tmp_path, SMALL | {"kv_heads": heads}, past=5000) for heads in (2, 8))

    def attention(found: OpsTable) -> tuple[int, int]:
        rows = [row for row in found.rows if row.op == "Attention"]
        return sum(row.macs for row in rows), sum(row.bytes_read for row in rows)

    assert attention(shared)[0] == attention(own)[0]
    assert attention(own)[1] == pytest.approx(4 * attention(shared)[1], rel=0.01)


def test_a_sliding_window_bounds_the_cache(tmp_path: Path) -> None:
    near, far = (table(tmp_path, SMALL | {"window": 64}, past=past) for past in (63, 5000))
    assert (near.macs, near.bytes_moved) == (far.macs, far.bytes_moved)
    config = hf("mistral", 2, 64, 8, 100, sliding_window=4096)
    assert decoder(config, "c").window == 4096
    assert decoder(config | {"model_type": "qwen2"}, "c").window == 0  # stored there and not used


def test_quantised_weights_are_read_packed_with_their_scales(tmp_path: Path) -> None:
    full, packed = table(tmp_path, SMALL, past=50), table(tmp_path, SMALL | {"weight_bits": 4}, past=50)
    layers = weights_of_layers(SMALL)
    saved = sum(row.weight_bytes for row in full.rows) - sum(row.weight_bytes for row in packed.rows)
    assert saved == layers * D - layers // 2 - layers // 32 * 2
    assert packed.macs == full.macs
    assert packed.flops == full.flops + 2 * layers  # each weight is unpacked
    assert packed.parameters == full.parameters
    stored = hf("llama", 2, 64, 8, 100, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 64})
    assert (decoder(stored, "c").weight_bits, decoder(stored, "c").group) == (4, 64)


@settings(deadline=None, max_examples=60)
@given(queries=st.integers(1, 12), past=st.integers(0, 12), window=st.integers(0, 12))
def test_visible_pairs_are_those_of_the_mask(queries: int, past: int, window: int) -> None:
    keys = past + queries
    mask = [
        (i, j) for i in range(queries) for j in range(keys) if j <= past + i and (not window or j > past + i - window)
    ]
    assert visible_pairs(queries, keys, past, causal=True, window=window) == len(mask)
    assert visible_pairs(queries, keys, past, causal=False) == queries * keys


def test_six_numbers_are_a_llama_and_words_of_the_file_win(tmp_path: Path) -> None:
    model = decoder(SMALL, "six")
    assert (model.gated, model.norm, model.activation, model.tied, model.rotary) == (True, "rms", "Silu", False, True)
    plain = decoder(SMALL | {"gated": False, "norm": "layer", "tied": True, "qkv_bias": True}, "six")
    assert (plain.gated, plain.norm, plain.tied, plain.qkv_bias) == (False, "layer", True, True)
    assert decoder({"layers": 1, "hidden": 64, "heads": 8, "vocab": 10}, "five").ffn == 256
    assert decoder(SMALL | {"layer_norm_eps": 1e-5}, "unknown family").norm == "layer"
    assert decoder({"model_type": "llava", "text_config": SMALL}, "sees").layers == 3


def test_lengths_are_asked_for_and_bounded_by_learned_positions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="length of the sequence") as caught:
        table(tmp_path, SMALL)
    assert "--dim past=2048" in caught.value.hint
    with pytest.raises(InputError, match="no dimension 'sequence'"):
        table(tmp_path, SMALL, sequence=3)
    with pytest.raises(InputError, match="has 1024 positions, 1025 are asked for"):
        table(tmp_path, PUBLISHED["GPT-2"][1], past=1024)
    with pytest.raises(InputError, match="'fp12'"):
        table(tmp_path, SMALL, precision="fp12", past=3)


LLAMA_2_7B = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 32, "vocab": 32000, "ffn": 11008}


def conditions(config: dict[str, Any], run: Pass, precision: str = "fp16") -> dict[str, object]:
    found = decoder(config, "t")
    return decoder_conditions(found, run, decoder_nodes(found, run, precision), precision)


def test_llama_2_7b_has_the_published_size_and_half_a_megabyte_of_cache_per_token() -> None:
    found = conditions(LLAMA_2_7B, Pass(1, 1, 2047))
    assert found["weights_bytes"] == 6738415616 * D  # as published: 13.5 GB
    assert found["cache_bytes"] == 2048 * 2 * 32 * 4096 * D
    assert (found["phase"], found["context"], found["tokens"]) == ("decode", 2047, 1)


def test_shared_heads_quantised_weights_and_tied_tables_take_less() -> None:
    small = {"layers": 1, "hidden": 64, "heads": 8, "kv_heads": 2, "vocab": 100, "ffn": 96}
    run = Pass(1, 1, 7)
    assert conditions(small, run)["cache_bytes"] == 8 * 2 * 2 * 8 * D
    tied = conditions(small | {"tied": True}, run)["weights_bytes"]
    assert tied == decoder(small, "t").parameters * D - 100 * 64 * D
    products = 64 * (2 * 64 + 2 * 16) + 3 * 64 * 96
    rest = decoder(small, "t").parameters - products
    packed = conditions(small | {"weight_bits": 4, "group": 32}, run)["weights_bytes"]
    assert packed == rest * D + products // 2 + products // 32 * D


PAST = "past_sequence_length"


def exported(mask: str = f"{PAST} + sequence_length", past: str = PAST) -> onnx.ModelProto:
    """A cache that grows beside a product, with the inputs that exporters give a decoder."""
    inputs: dict[str, Dims] = {"input_ids": ["batch", "sequence_length"], "attention_mask": ["batch", mask]}
    inputs |= {"past_key_values.0.key": ["batch", 2, past, 8], "past_key_values.0.value": ["batch", 2, past, 8]}
    nodes = [
        node("Gather", "table input_ids", "h"),
        node("MatMul", "h head", "logits"),
        node("Cast", "attention_mask", "seen", to=TensorProto.FLOAT),
        node("Identity", "past_key_values.0.key", "present.0.key"),
        node("Identity", "past_key_values.0.value", "present.0.value"),
    ]
    outputs = ["logits", "seen", "present.0.key", "present.0.value"]
    proto = model(nodes, inputs, {"table": (100, 32), "head": (32, 100)}, outputs=outputs)
    for value in proto.graph.input[:2]:
        value.type.tensor_type.elem_type = TensorProto.INT64
    return proto


@pytest.mark.parametrize(
    ("new", "past", "phase", "context"), [(6, 0, "prefill", 6), (1, 50, "decode", 50), (3, 50, "extend", 50)]
)
def test_an_exported_decoder_is_told_by_its_inputs(new: int, past: int, phase: str, context: int) -> None:
    sizes = {"sequence_length": new, "past_sequence_length": past}
    found = model_table(exported(), "net", "infer", 3, precision="fp16", dimensions=sizes).header.conditions
    assert (found["phase"], found["context"], found["tokens"]) == (phase, context, 3 * new)
    assert found["cache_bytes"] == 2 * 3 * 2 * (past + new) * 8 * D
    assert found["weights_bytes"] == 2 * 100 * 32 * D


def test_the_open_lengths_of_a_decoder() -> None:
    found = open_lengths(exported())
    assert found == Lengths("sequence_length", "past_sequence_length")
    assert found.sizes(1, 9) == {"sequence_length": 1, "past_sequence_length": 9}


def test_a_mask_with_a_length_of_its_own_is_as_long_as_both() -> None:
    found = open_lengths(exported(mask="total_sequence_length"))
    assert found is not None
    assert found.sizes(2, 9)["total_sequence_length"] == 11
