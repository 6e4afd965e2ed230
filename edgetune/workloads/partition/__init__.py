"""Any ONNX network, cut once into layers that load, execute and leave memory one by one.

model.onnx -- whole.py --> dimensions fixed, weights in a file beside the graph
           -- optimised.py --> fused and folded once, by ONNX Runtime itself, for the whole network
           -- rows.py --> fully connected layers too large for the memory become several
           -- cut.py --> pieces: an operator with weights and the ones without that follow it
           -- cut.py, weight_files.py --> a graph without weights and a file of weights per piece
           -- prepare.py --> a folder with a manifest, which ``edgetune.workloads.prepared`` reads back
"""
