"""``python -m orthoplus``, the same as the command ``orthoplus``."""

from orthoplus.cli import main

if __name__ == "__main__":
    main()
