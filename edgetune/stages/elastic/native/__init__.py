"""What runs without Python while a GPU waits: decisions and launches, in C++ that g++ compiles at its first use."""
