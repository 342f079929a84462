"""The exit codes of the commands, which CI reports state too."""

# Of a run's outcome; whoever asks for no decision gets the numbers.
EXIT_CODES = {"pass": 0, "no decision": 0, "fail": 1, "inconclusive": 4}
# Without a result: what the user can correct, and a run that failed.
USER_ERROR, RUN_FAILED = 2, 3
