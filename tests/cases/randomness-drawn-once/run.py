import mechanism

from dpaudit import audit

if __name__ == "__main__":
    for function, epsilon in (
        (mechanism.once_per_data, 0),
        (mechanism.once, 1),
        (mechanism.first, 0),
    ):
        bound = audit(function, [0.0, 1.0], [1.0, 1.0], trials=400).epsilon.lower
        print("true" if bound <= epsilon + 0.2 else "false claim", bound)
