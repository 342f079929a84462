import mechanism

from dpaudit import audit

if __name__ == "__main__":
    for function, epsilon in ((mechanism.noisy_sum, 1), (mechanism.hashed, 0)):
        bound = audit(function, [0, 1], [1, 1], trials=300, fresh_process=True).epsilon.lower
        print("true" if bound <= epsilon + 0.2 else "false claim", bound)
