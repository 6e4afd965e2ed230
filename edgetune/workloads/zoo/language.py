"""Networks of text: BERT, and two word-level LSTMs of two layers that reproduce the figures of two studies.

BERT base and large, uncased (Devlin et al. 2018, arXiv:1810.04805), follow ``BertModel`` of Hugging Face transformers,
with its eager attention and its pooler. Linear layers work on a matrix of batch x 128 rows, as PyTorch does it
internally: one ``Gemm`` each, bias included.

Pagoda (arXiv:2509.20189) and Fulcrum (2025) print of their LSTM of Wikitext 2 layers and 8.6 M parameters. Pagoda's
notebook has 29,423 words (those of Wikitext-2 in lower case), layers of 256 units, and one weight for embedding and
decoder, which makes 8.6 M; the decoder's 30.13 MB is what it prints as weights. ``lstm`` reads 8 words and decodes the
last: counted as there, one FLOP a multiply-accumulate of the LSTM layers and two in the decoder, that is its 0.023
GFLOP a sample. ``lstm_wikitext`` is as Fulcrum prints it, 3.9 GFLOP: the word after each of a sample's is decoded. The
length of samples is not printed; 227 words make 3.9 GFLOP.

Sizes of the networks' inputs that both the table of networks and their definitions need.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import ZEROS, always, normal, uniform

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

BERT_SEQUENCE = 128
BERT_VOCABULARY = 30522

LSTM_SEQUENCE = 8
WIKITEXT_SEQUENCE = 227
WIKITEXT_VOCABULARY = 29_423

YOLO_IMAGE = 640
YOLO_CLASSES = 80


WIDTH = 256
"""Units of both LSTM layers, and of the embedding."""


def lstm(graph: GraphBuilder, tokens: Value) -> dict[str, Value]:
    """Embedding, two LSTM layers over the words, and the next word from the last state."""
    _, last = _recurrent(graph, tokens)
    return {"logits": graph.linear("decoder", last, WIKITEXT_VOCABULARY, tied="embedding.weight")}


def lstm_wikitext(graph: GraphBuilder, tokens: Value) -> dict[str, Value]:
    """The same, but the next word from the state after each word."""
    steps, _ = _recurrent(graph, tokens)
    rows = graph.reshape("rows", graph.transpose("batch_first", steps, (1, 0, 2)), (-1, WIDTH))
    logits = graph.linear("decoder", rows, WIKITEXT_VOCABULARY, tied="embedding.weight")
    return {"logits": graph.reshape("logits", logits, (-1, WIKITEXT_SEQUENCE, WIKITEXT_VOCABULARY))}


def _recurrent(graph: GraphBuilder, tokens: Value) -> tuple[Value, Value]:
    """Return the states after each word, [words, batch, width], and the last one, [batch, width]."""
    x = graph.embedding("embedding", tokens, WIKITEXT_VOCABULARY, WIDTH, recipe=uniform(0.5))
    x = graph.transpose("sequence_first", x, (1, 0, 2))
    steps, _ = graph.lstm("lstm.0", x, WIDTH)
    return graph.lstm("lstm.1", steps, WIDTH)


POSITIONS = 512
STD = 0.02
"""Standard deviation of every initial matrix (appendix A.2 of the paper's code, ``initializer_range``)."""
EPSILON = 1e-12
DROPOUT = 0.1


def bert_base(graph: GraphBuilder, input_ids: Value, attention_mask: Value, token_type_ids: Value) -> dict[str, Value]:
    """12 layers, 768 wide, 12 heads."""
    return _bert(graph, input_ids, attention_mask, token_type_ids, layers=12, width=768, heads=12)


def bert_large(graph: GraphBuilder, input_ids: Value, attention_mask: Value, token_type_ids: Value) -> dict[str, Value]:
    """24 layers, 1024 wide, 16 heads."""
    return _bert(graph, input_ids, attention_mask, token_type_ids, layers=24, width=1024, heads=16)


def _bert(
    graph: GraphBuilder, ids: Value, mask: Value, types: Value, *, layers: int, width: int, heads: int
) -> dict[str, Value]:
    x = _embeddings(graph, ids, types, width)
    # 0 where a token counts, -10000 where it is padding: added to the attention scores.
    present = graph.to_float("mask.float", graph.unsqueeze("mask.axes", mask, (1, 2)))
    absent = graph.binary("Sub", "mask.shifted", present, 1.0)
    bias = graph.binary("Mul", "mask.bias", absent, 10000.0)
    for layer in range(layers):
        x = _layer(graph, f"encoder.layer.{layer}", x, bias, heads)
    hidden = graph.reshape("encoder.output", x, (-1, BERT_SEQUENCE, width))
    first = graph.select("pooler.first_token", hidden, 0, axis=1)
    pooled = graph.tanh("pooler.activation", _linear(graph, "pooler.dense", first, width))
    return {"last_hidden_state": hidden, "pooler_output": pooled}


def _embeddings(graph: GraphBuilder, ids: Value, types: Value, width: int) -> Value:
    words = graph.embedding("embeddings.word_embeddings", ids, BERT_VOCABULARY, width, recipe=normal(STD))
    kinds = graph.embedding("embeddings.token_type_embeddings", types, 2, width, recipe=normal(STD))
    table = graph.weight("embeddings.position_embeddings.weight", (POSITIONS, width), normal(STD))
    positions = graph.slice(
        "embeddings.position_embeddings", table, (BERT_SEQUENCE, width), start=0, end=BERT_SEQUENCE, axis=0
    )
    x = graph.add("embeddings.words_and_types", words, kinds)
    x = graph.layer_norm("embeddings.LayerNorm", graph.add("embeddings.sum", x, positions), epsilon=EPSILON)
    return graph.reshape("embeddings.rows", graph.dropout("embeddings.dropout", x, DROPOUT), (-1, width))


def _layer(graph: GraphBuilder, name: str, x: Value, mask: Value, heads: int) -> Value:
    attended = _attention(graph, f"{name}.attention", x, mask, heads)
    wide = graph.gelu(f"{name}.intermediate.gelu", _linear(graph, f"{name}.intermediate.dense", attended, 4 * x[1]))
    return _residual(graph, f"{name}.output", wide, attended)


def _attention(graph: GraphBuilder, name: str, x: Value, mask: Value, heads: int) -> Value:
    width, head = x[1], x[1] // heads
    split = (-1, BERT_SEQUENCE, heads, head)
    parts = {}
    for part, axes in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3))):
        rows = graph.reshape(f"{name}.{part}_heads", _linear(graph, f"{name}.self.{part}", x, width), split)
        parts[part] = graph.transpose(f"{name}.{part}_transposed", rows, axes)
    scores = graph.matmul(f"{name}.scores", parts["query"], parts["key"])
    scores = graph.binary("Div", f"{name}.scores_scaled", scores, math.sqrt(head))
    weights = graph.softmax(f"{name}.softmax", graph.add(f"{name}.scores_masked", scores, mask))
    weights = graph.dropout(f"{name}.self.dropout", weights, DROPOUT)
    context = graph.transpose(
        f"{name}.context_transposed", graph.matmul(f"{name}.context", weights, parts["value"]), (0, 2, 1, 3)
    )
    return _residual(graph, f"{name}.output", graph.reshape(f"{name}.context_rows", context, (-1, width)), x)


def _residual(graph: GraphBuilder, name: str, y: Value, x: Value) -> Value:
    """Linear, dropout, add what came in, normalise."""
    y = graph.dropout(f"{name}.dropout", _linear(graph, f"{name}.dense", y, x[1]), DROPOUT)
    return graph.layer_norm(f"{name}.LayerNorm", graph.add(f"{name}.add", y, x), epsilon=EPSILON)


def _linear(graph: GraphBuilder, name: str, x: Value, features: int) -> Value:
    return graph.linear(name, x, features, initialise=always(normal(STD)), initialise_bias=always(ZEROS))
