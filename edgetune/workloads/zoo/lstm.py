"""A two-layer word-level LSTM language model that reproduces the figures which a study prints for its own.

Pagoda (arXiv:2509.20189) prints no architecture, only 2 layers and 8.6 M parameters, 0.023 GFLOP a sample (its measured
0.019 and 0.45 TFLOP/s need 0.0234) and 30.13 MB of weights without the embedding. With an embedding of V words x E, two
layers of H units, a sequence of S words, and the decoder run on the last step only:

    parameters  V E  +  4 H (E + H) + 8 H  +  8 H^2 + 8 H  +  V (H + 1)  =  8.6 M
    FLOP        2 [ S (4 H (E + H) + 8 H^2) + V H ]                     =  23.4 M
    weights     4 bytes x (the parameters without V E)                  =  30.13 MB

S = 2 is the smallest number of steps that gives the FLOP, and then H = 560, E = 176, V = 6000 meet all three: 8,588,400
parameters, 23.35 MFLOP, 30.13 MB. (Longer sequences of narrower layers meet them too; this one is the nearest to a
usual model of five or six hundred units.) At batch 1 the study counts 34.48 MB of traffic. Here it is 30.2 MB when
every weight is read once and 40.2 MB when the recurrent weights are read again for the second step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.workloads.zoo.shapes import LSTM_VOCABULARY

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

EMBEDDING = 176
HIDDEN = 560


def lstm(graph: GraphBuilder, tokens: Value) -> dict[str, Value]:
    """Embedding, two LSTM layers over the words, the next word from the last state."""
    x = graph.embedding("embedding", tokens, LSTM_VOCABULARY, EMBEDDING)
    x = graph.transpose("sequence_first", x, (1, 0, 2))
    steps, _ = graph.lstm("lstm.0", x, HIDDEN)
    _, last = graph.lstm("lstm.1", steps, HIDDEN)
    return {"logits": graph.linear("decoder", last, LSTM_VOCABULARY)}
