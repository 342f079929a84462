"""Values of `basis` of `reconstruction.…`, `submissions.…` and `attributes.…`.

They say what is recovered or guessed from what, or which two numbers are compared.
"""

RELEASED, WITHOUT, MEANS = "released model", "model without them", "item means"
LEAK, BEYOND_MEANS = "leak", "better than item means"
BEYOND_WITHOUT = "better than without them"
SUBMITTED, BEYOND_RELEASED = "submissions", "better than released model"
# What users' attributes are guessed from.
ANSWERS, ABSENT, HISTORY, GUESS = "model", "model without the user", "raw history", "largest class"
BEYOND_ABSENT, BEYOND_HISTORY = "better than without the user", "better than raw history"
BEYOND_GUESS = "better than a guess"
# Those by which an attacker does better; the others are errors, or shares that are recovered.
OF_ATTRIBUTES = (BEYOND_ABSENT, BEYOND_HISTORY, BEYOND_GUESS)
GAINS = (LEAK, BEYOND_MEANS, BEYOND_WITHOUT, BEYOND_RELEASED, *OF_ATTRIBUTES)
# Those that a gate may judge: what trainings measure.
OF_MODELS = (RELEASED, WITHOUT, BEYOND_WITHOUT, LEAK, BEYOND_MEANS)
OF_SUBMISSIONS = (SUBMITTED, RELEASED, BEYOND_MEANS, BEYOND_RELEASED)
