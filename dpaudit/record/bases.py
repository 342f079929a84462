"""Values of `basis` of `reconstruction.…` and `submissions.…`.

They say what sensitive ratings are recovered from, or which two errors are compared.
"""

RELEASED, WITHOUT, MEANS = "released model", "model without them", "item means"
LEAK, BEYOND_MEANS = "leak", "better than item means"
BEYOND_WITHOUT = "better than without them"
SUBMITTED, BEYOND_RELEASED = "submissions", "better than released model"
# Those by which an attacker does better; the others are errors, or shares that are recovered.
GAINS = (LEAK, BEYOND_MEANS, BEYOND_WITHOUT, BEYOND_RELEASED)
# Those that a gate may judge: what trainings measure.
OF_MODELS = (RELEASED, WITHOUT, BEYOND_WITHOUT, LEAK, BEYOND_MEANS)
OF_SUBMISSIONS = (SUBMITTED, RELEASED, BEYOND_MEANS, BEYOND_RELEASED)
