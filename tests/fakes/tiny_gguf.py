"""A small language model with random weights, as a GGUF file that llama.cpp serves.

Its vocabulary is the 256 bytes: each byte of a prompt is a token. It writes letters only.
Needs the package ``gguf``.
"""

from pathlib import Path

import numpy as np

BLOCKS, WIDTH, HEADS, FORWARD, CONTEXT = 8, 512, 8, 1408, 4096

_LETTERS = slice(3 + ord("a"), 3 + ord("z") + 1)
"""Tokens of letters: a server holds back other text, such as half of a character or the beginning of a tag."""


def write_model(path: Path) -> None:
    """Write the model: 26 million weights, always the same."""
    import gguf

    random = np.random.default_rng(0)
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", random.normal(0.0, 0.02, shape).astype(np.float32))

    weights("token_embd", len(tokens), WIDTH)
    for block in range(BLOCKS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{block}.{name}", WIDTH, WIDTH)
        weights(f"blk.{block}.ffn_gate", FORWARD, WIDTH)
        weights(f"blk.{block}.ffn_up", FORWARD, WIDTH)
        weights(f"blk.{block}.ffn_down", WIDTH, FORWARD)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{block}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    output = np.zeros((len(tokens), WIDTH), np.float32)
    output[_LETTERS] = random.normal(0.0, 0.02, (len(output[_LETTERS]), WIDTH))
    writer.add_tensor("output.weight", output)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
