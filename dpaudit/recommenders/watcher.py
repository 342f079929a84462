"""A script that ends a command, and removes its files, when the process that started it is gone.

It runs in a process of its own, so that even a kill of dpaudit leaves no training behind. Its
standard input is a pipe from dpaudit, whose end says that dpaudit is gone. It imports nothing else
of this package.

Usage: python -I -S watcher.py FOLDER, with the number of the command's process group as the first
line of standard input.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

# A killed process may write a last file while its folder is being removed.
_TRIES = 10


def main() -> None:
    """Wait for the end of standard input, then kill the group and remove the folder."""
    group = sys.stdin.readline().strip()
    sys.stdin.read()
    if group:
        with suppress(OSError):
            os.killpg(int(group), signal.SIGKILL)
    for _ in range(_TRIES):
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        if not Path(sys.argv[1]).exists():
            return


if __name__ == "__main__":
    main()
