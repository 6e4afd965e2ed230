"""The physics behind the ``roofline`` strategy: what time and power do as knobs and batch size change."""
