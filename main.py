"""`python main.py fit --config configs/experiment/<name>.yaml` and the other commands."""

import sys

from streakline.cli import main

if __name__ == "__main__":
    sys.exit(main())
