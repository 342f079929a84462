from dpaudit.bounds.accounting import gaussian_mechanism_epsilon, noise_multiplier

loss = [
    gaussian_mechanism_epsilon(1.0, delta=delta, sampling=0.01, compositions=1000).upper
    for delta in (1e-10, 1e-11, 1e-12, 1e-18, 1e-30, 1e-60)
]
noise = [
    noise_multiplier(1.0, delta=delta, sampling=0.01, compositions=1000)
    for delta in (1e-10, 1e-12, 1e-18)
]
print(loss, noise)
assert loss == sorted(loss)
assert noise == sorted(noise)
print("all below 7" if max(loss[:4]) < 7 and max(noise) < 4 else "too large")
