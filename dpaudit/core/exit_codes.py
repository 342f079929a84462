"""The exit codes of the commands, which reports for CI state too.

It imports nothing: `core.processes` needs it before the current folder is off the path, where any
further import, of the standard library too, may find a file of that folder.
"""

# The exit code of each outcome of a run. A run that decides nothing succeeds unless told otherwise.
_CODES = {"go": 0, "no decision": 0, "stop": 1, "undecided": 4}
# The exit codes of runs without a result: an error that the user can correct, and any other.
USER_ERROR, RUN_FAILED = 2, 3


def exit_code(outcome: str, *, require_decision: bool = False) -> int:
    """Return the exit code of an outcome.

    Args:
        outcome: the outcome of a run.
        require_decision: whether a run that decides nothing ends like an undecided one.
    """
    missing = require_decision and outcome == "no decision"
    return _CODES["undecided" if missing else outcome]
