"""Runs the command: ``python -m veilboost``."""

import sys

from veilboost.command_line import main

if __name__ == "__main__":
    sys.exit(main())
