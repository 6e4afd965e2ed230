"""``python -m edgetune``."""

from edgetune.cli.main import main

if __name__ == "__main__":
    main()
