"""The exit codes of the commands, which reports for CI state too."""

# The exit code of each outcome of a run. A run that decides nothing succeeds.
EXIT_CODES = {"go": 0, "no decision": 0, "stop": 1, "undecided": 4}
# The exit codes of runs without a result: an error that the user can correct, and any other.
USER_ERROR, RUN_FAILED = 2, 3
