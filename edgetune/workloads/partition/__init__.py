"""Cutting of an ONNX network into layers that are loaded, executed and freed one by one.

model.onnx -- prepare.py --> dimensions fixed, weights in a file beside the graph
           -- optimised.py --> the whole network fused and folded by ONNX Runtime
           -- cut.py --> fully connected layers larger than the limit split into several
           -- cut.py --> pieces: an operator with weights and the operators without weights behind it
           -- cut.py, prepare.py --> a graph without weights and a file of weights per piece
           -- prepare.py --> a folder with a manifest, read by ``edgetune.workloads.prepared``
"""
