"""``python -m seneca.cli`` is the command ``seneca``."""

from seneca.cli import main

if __name__ == "__main__":
    main()
