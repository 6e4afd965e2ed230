"""Training of a small task at several batch sizes: the number of epochs to the target accuracy."""
