"""`python -m dpaudit`, and the command `dpaudit`."""

# Nothing is imported before the current folder is off the path, not even __future__.
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # `python -m` has put it there

import os
import signal
from contextlib import nullcontext
from types import FrameType


def main() -> None:
    """Run the command line.

    What runs the user's code runs in a process of its own, whatever ends that. While the command
    is imported, a signal ends the process with the exit code of shells: nothing has been
    written yet. A signal that the caller ignores, as `nohup` does, stays ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    if sys.platform != "win32":  # who ignores it cannot know how a process ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        from dpaudit.core.processes import leave_current_folder, supervised
        from dpaudit.core.standard import streams

        streams.separate()
        leave_current_folder()
        runs_code = "--allow-code" in sys.argv and sys.platform != "win32"
        with supervised() if runs_code else nullcontext():
            from dpaudit.cli import main as command

            command()
    except Exception:  # of a damaged installation; Python would end with the code of a failed gate
        sys.excepthook(*sys.exc_info())
        sys.exit(3)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
