"""Real training of a small task at several batch sizes: how often the data must be seen until the target accuracy."""
