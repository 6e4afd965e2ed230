"""What a run of a language model is and what it keeps in memory, from a configuration and from ONNX."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto
from onnx_graphs import Dims, model, model_table, node

from edgetune.workloads.costs.generation import (
    Lengths,
    Pass,
    cache_bytes,
    decoder_conditions,
    decoder_nodes,
    open_lengths,
)
from edgetune.workloads.llm import decoder

D = 2  # bytes of a float16
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


def test_a_window_bounds_the_cache() -> None:
    found = decoder(LLAMA_2_7B | {"window": 100}, "t")
    assert cache_bytes(found, Pass(1, 1, 500), "fp16") == 100 * 2 * 32 * 4096 * D
    assert cache_bytes(found, Pass(1, 1, 50), "fp16") == 51 * 2 * 32 * 4096 * D


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
