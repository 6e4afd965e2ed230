"""The physics behind the ``roofline`` strategy: time and power as functions of knobs and batch size."""
