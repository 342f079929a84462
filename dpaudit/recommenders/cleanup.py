"""A script that ends commands and removes their files when the process that ran them is gone.

It runs in a process of its own, so that even a kill of dpaudit leaves no training behind. It is no
child of that process, as workers are killed together with their children. It imports nothing else
of this package.

Usage: python -I -S cleanup.py. Standard input is a pipe from dpaudit. Its lines are `FOLDER`, a
zero byte, and the number of the command's process group: empty before the command runs, `end` once
the folder is removed. The last line of a folder counts.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress

# A killed process may write a last file while its folder is being removed.
_TRIES = 10


def main() -> None:
    """Wait for the end of standard input, then clean up what has not ended."""
    groups: dict[bytes, bytes] = {}
    for line in sys.stdin.buffer:
        folder, _, group = line.rstrip(b"\n").partition(b"\0")
        groups[folder] = group
        if group == b"end":
            del groups[folder]
    for group in filter(None, groups.values()):
        with suppress(OSError):
            os.killpg(int(group), signal.SIGKILL)
    for _ in range(_TRIES):
        for folder in filter(os.path.exists, groups):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__" and not os.fork():
    main()
