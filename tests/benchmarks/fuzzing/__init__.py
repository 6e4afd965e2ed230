"""The parts of ``fuzz.py``: valid files of every kind, damage to them, command lines, and processes to run them."""
