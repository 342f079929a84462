"""Which faults of trainings by DP-SGD are found, with their line, and which honest are accused.

    python bench/dp_training.py --seeds 20
    python bench/dp_training.py --epsilons

Faults are planted in a factorisation of 1000 random ratings of 200 users and 300 items, trained
with Opacus or in a loop of its own. A line that is marked with `FAULT` is the right one.

With `--epsilons` it prints the ε of trainings of the shape of MovieLens-100K: as stated, as seen in
their steps, of a user, and as canaries in one run certify it, also by jax-privacy if it is there. A
canary is an interaction of a user and an item of its own, whose factors its gradient alone moves; a
fair coin puts it into the data. Its score is the log-likelihood ratio of all steps.
"""

from __future__ import annotations

import argparse
import inspect
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dpaudit.audits.dp_training.checks import measured_size
from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.runs import Examination, Trainer
from dpaudit.audits.dp_training.verdict import Verdict
from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.data.ratings import Ratings, Scale

USERS, ITEMS, ROWS, BATCH = 200, 300, 1000, 64
Train = Callable[[Any, int, Any], Any]


class Factors(nn.Module):
    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, 16), nn.Embedding(items, 16)
        self.register_buffer("level", torch.zeros(1))
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, users: Any, items: Any) -> Any:
        return (self.users(users) * self.items(items)).sum(1)


def rows_of(interactions: Any) -> TensorDataset:
    table = interactions.table
    return TensorDataset(
        torch.from_numpy(table.user.astype(np.int64)),
        torch.from_numpy(table.item.astype(np.int64)),
        torch.from_numpy(table.rating.copy()),
    )


def sgd(weights: Any) -> Any:
    return torch.optim.SGD(weights, lr=0.5)


def private(
    data: TensorDataset,
    shape: tuple[int, int],
    seed: int,
    optimizer: type[DPOptimizer] = DPOptimizer,
    moves: Callable[[Any], Any] = sgd,
    **options: Any,
) -> tuple[Any, Any, Any, Any]:
    """Make a training private, with the library's divisor mended."""
    torch.manual_seed(seed)
    engine, model = PrivacyEngine(accountant="rdp"), Factors(*shape)
    model, private_optimizer, loader = engine.make_private(
        module=model,
        optimizer=moves(model.parameters()),
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        **options,
    )
    private_optimizer.__class__ = optimizer
    private_optimizer.expected_batch_size = BATCH
    return model, private_optimizer, loader, engine


def epoch(model: Any, optimizer: Any, loader: Any) -> float:
    """Train for an epoch, and return its mean loss."""
    losses = []
    for users, items, ratings in loader:
        optimizer.zero_grad()
        loss = ((model(users, items) - ratings) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def opacus(optimizer: type[DPOptimizer] = DPOptimizer, **options: Any) -> Train:
    def train(interactions: Any, seed: int, watch: Any) -> Any:
        made = private(rows_of(interactions), interactions.shape, seed, optimizer, **options)
        watch(made[1], model=made[0], loader=made[2])
        for _ in range(2):
            epoch(*made[:3])
        return made[0]

    return train


def summed(optimizer: Any, factors: Callable[[Any], Any]) -> None:
    for weight in optimizer.params:
        weight.summed_grad = torch.einsum("i,i...", factors(weight), weight.grad_sample)
        weight.grad_sample._processed = True


class Unclipped(DPOptimizer):
    def clip_and_accumulate(self) -> None:  # FAULT no clipping
        summed(self, lambda weight: torch.ones(len(weight.grad_sample)))


class AfterMean(DPOptimizer):
    def clip_and_accumulate(self) -> None:
        sums = [weight.grad_sample.mean(0).square().sum() for weight in self.params]
        factor = (1 / (sum(sums).sqrt() + 1e-6)).clamp(max=1)  # FAULT clipped after mean
        summed(self, lambda weight: factor.repeat(len(weight.grad_sample)))


class PerTensor(DPOptimizer):
    def clip_and_accumulate(self) -> None:
        def factors(weight: Any) -> Any:
            norms = weight.grad_sample.flatten(1).norm(dim=1)
            return (1 / (norms + 1e-6)).clamp(max=1)  # FAULT clipped per tensor

        summed(self, factors)


class HalfNorm(DPOptimizer):
    def clip_and_accumulate(self) -> None:
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in self.grad_samples]).norm(dim=0)
        factors = (2 / (norms + 1e-6)).clamp(max=1)  # FAULT clipped to twice the norm
        summed(self, lambda weight: factors)


class Noised(DPOptimizer):
    """Adds noise of its own."""

    made = 0

    def add_noise(self) -> None:
        self.made += 1
        for weight in self.params:
            noise = self.drawn(weight)
            weight.grad = (weight.summed_grad + noise).view_as(weight)

    def drawn(self, weight: Any) -> Any:
        return torch.randn(weight.shape)


def smaller(share: float) -> type[DPOptimizer]:
    class Smaller(DPOptimizer):
        def add_noise(self) -> None:
            for weight in self.params:
                noise = share * torch.randn(weight.shape)  # FAULT half 5% 1%
                weight.grad = (weight.summed_grad + noise).view_as(weight)

    return Smaller


class Once(DPOptimizer):
    made = 0

    def add_noise(self) -> None:
        self.made += 1
        for weight in self.params:
            noise = torch.randn(weight.shape) * (self.made % 16 == 1)  # FAULT once an epoch
            weight.grad = (weight.summed_grad + noise).view_as(weight)


class Reused(DPOptimizer):
    noise: Any = None

    def add_noise(self) -> None:
        if self.noise is None:
            self.noise = [torch.randn(weight.shape) for weight in self.params]  # FAULT reused
        for weight, noise in zip(self.params, self.noise, strict=True):
            weight.grad = (weight.summed_grad + noise).view_as(weight)


class Shared(DPOptimizer):
    def add_noise(self) -> None:
        noise = torch.randn(ITEMS, 16)  # FAULT equal in two tables
        for weight in self.params:
            weight.grad = (weight.summed_grad + noise[: len(weight)]).view_as(weight)


class Touched(DPOptimizer):
    def add_noise(self) -> None:
        for weight in self.params:
            noise = torch.randn(weight.shape) * (weight.summed_grad != 0)  # FAULT touched rows
            weight.grad = (weight.summed_grad + noise).view_as(weight)


class Seeded(DPOptimizer):
    made = 0

    def add_noise(self) -> None:
        self.made += 1
        for index, weight in enumerate(self.params):
            source = torch.Generator().manual_seed(2 * self.made + index)  # FAULT known seed
            noise = torch.randn(weight.shape, generator=source)
            weight.grad = (weight.summed_grad + noise).view_as(weight)


class Flat(DPOptimizer):
    def add_noise(self) -> None:
        for weight in self.params:
            noise = 3**0.5 * (2 * torch.rand_like(weight.summed_grad) - 1)  # FAULT uniform noise
            weight.grad = (weight.summed_grad + noise).view_as(weight)


class ByBatch(DPOptimizer):
    def scale_grad(self) -> None:  # FAULT divided by the batch
        size = max(1, len(self.params[0].grad_sample))
        for weight in self.params:
            weight.grad /= size


def shuffled(interactions: Any, seed: int, watch: Any) -> Any:
    torch.manual_seed(seed)
    engine, model = PrivacyEngine(accountant="rdp"), Factors(*interactions.shape)
    loader = DataLoader(rows_of(interactions), batch_size=BATCH, shuffle=True)
    model, optimizer, loader = engine.make_private(  # FAULT shuffled
        module=model,
        optimizer=sgd(model.parameters()),
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    watch(optimizer, model=model, loader=loader)
    for _ in range(2):
        epoch(model, optimizer, loader)
    return model


def buffered(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    for users, items, ratings in loader:
        optimizer.zero_grad()
        ((model(users, items) - ratings) ** 2).mean().backward()
        optimizer.step()
        model._module.level.mul_(0.9).add_(0.1 * ratings.mean())  # FAULT statistic in a buffer
    return model


def normalised(interactions: Any, seed: int, watch: Any) -> Any:
    users, items, ratings = rows_of(interactions).tensors
    ratings = ratings - ratings.mean()  # FAULT normalised by data
    data = TensorDataset(users, items, ratings)
    model, optimizer, loader, _ = private(data, interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    for _ in range(2):
        epoch(model, optimizer, loader)
    return model


def initialised(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    with torch.no_grad():
        model._module.users.weight += float(interactions.table.rating.mean())  # FAULT start
    for _ in range(2):
        epoch(model, optimizer, loader)
    return model


def half_rate(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, engine = private(rows_of(interactions), interactions.shape, seed)
    hook = engine.accountant.get_optimizer_hook_fn(sample_rate=0.5 / len(loader))
    optimizer.attach_step_hook(hook)  # FAULT half the rate
    watch(optimizer, model=model, loader=loader)
    for _ in range(2):
        epoch(model, optimizer, loader)
    return model


def uncounted(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, engine = private(rows_of(interactions), interactions.shape, seed)
    count, calls = engine.accountant.get_optimizer_hook_fn(sample_rate=1 / len(loader)), []

    def hook(private_optimizer: Any) -> None:
        calls.append(1)
        if len(calls) % 2:
            count(private_optimizer)

    optimizer.attach_step_hook(hook)  # FAULT every other step counted
    watch(optimizer, model=model, loader=loader, accountant=engine.accountant)
    for _ in range(2):
        epoch(model, optimizer, loader)
    return model


def stopped(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    best = float("inf")
    for _ in range(8):
        loss = epoch(model, optimizer, loader)
        if loss > 0.999 * best:  # FAULT early stop on the training loss
            break
        best = loss
    return model


def by_parity(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    for _ in range(4):
        if int(1000 * epoch(model, optimizer, loader)) % 2:  # FAULT stop on a parity
            break
    return model


def scheduled(interactions: Any, seed: int, watch: Any) -> Any:
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    schedule = plateau(optimizer.original_optimizer, patience=0, threshold=0.01)
    for _ in range(4):
        loss = epoch(model, optimizer, loader)
        schedule.step(loss)  # FAULT schedule by the training loss
    return model


def vocabulary(interactions: Any, seed: int, watch: Any) -> Any:
    users, items, ratings = rows_of(interactions).tensors
    known, items = torch.unique(items, return_inverse=True)  # FAULT vocabulary
    data = TensorDataset(users, items, ratings)
    model, optimizer, loader, _ = private(data, (interactions.shape[0], len(known)), seed)
    watch(optimizer, model=model, loader=loader)
    for _ in range(2):
        epoch(model, optimizer, loader)
    return model


def public_stop(interactions: Any, seed: int, watch: Any) -> Any:
    """Stop early on public data: an honest training."""
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    source = np.random.default_rng(0)
    users, items = (torch.from_numpy(source.integers(n, size=500)) for n in (USERS, ITEMS))
    best = float("inf")
    for _ in range(6):
        epoch(model, optimizer, loader)
        with torch.no_grad():
            loss = float(((model._module(users, items) - 3) ** 2).mean())
        if loss > best:
            break
        best = loss
    return model


def stepped(interactions: Any, seed: int, watch: Any) -> Any:
    """Lower the learning rate by a schedule: an honest training."""
    model, optimizer, loader, _ = private(rows_of(interactions), interactions.shape, seed)
    watch(optimizer, model=model, loader=loader)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer.original_optimizer, 1, 0.5)
    for _ in range(2):
        epoch(model, optimizer, loader)
        schedule.step()
    return model


def own(interactions: Any, seed: int, watch: Any, *, fault: str = "") -> Any:
    source = np.random.default_rng(seed)
    noises = np.random.default_rng(3) if fault == "own seed" else source
    table, rate = interactions.table, 1 / 16
    p, q = (source.normal(0, 0.01, (count, 16)) for count in interactions.shape)
    watch.own(noise_multiplier=1.0, max_grad_norm=1.0, sample_rate=rate, weights=[p, q])
    for _ in range(32):
        rows = np.flatnonzero(source.random(len(table.user)) < rate)
        users, items = table.user[rows], table.item[rows]
        error = 2 * ((p[users] * q[items]).sum(1) - table.rating[rows])[:, None]
        of_users, of_items = error * q[items], error * p[users]
        norms = np.sqrt((of_users**2).sum(1) + (of_items**2).sum(1))
        factors = np.minimum(1 if fault != "own no clip" else 1e9, 1 / np.maximum(norms, 1e-12))
        if fault == "own no clip":
            factors = np.ones_like(norms)
        sums = [np.zeros_like(p), np.zeros_like(q)]
        np.add.at(sums[0], users, factors[:, None] * of_users)
        np.add.at(sums[1], items, factors[:, None] * of_items)
        size = 0.5 if fault == "own half" else 1.0
        noise = [noises.normal(0, size, part.shape) for part in sums]
        divisor = max(1, len(rows)) if fault == "own by batch" else 62.5
        moves = watch.step(sums, noise, divisor, rows=len(rows))
        p -= 0.5 * moves[0]
        q -= 0.5 * moves[1]
    return p, q


def with_fault(fault: str) -> Train:
    def train(interactions: Any, seed: int, watch: Any) -> Any:
        return own(interactions, seed, watch, fault=fault)

    return train


# Each fault, what plants it, and the check that finds it.
FAULTS: dict[str, tuple[Train, str]] = {
    "no clipping": (opacus(Unclipped), "clipping"),
    "clipped after mean": (opacus(AfterMean), "clipping"),
    "clipped per tensor": (opacus(PerTensor), "clipping"),
    "clipped to twice the norm": (opacus(HalfNorm), "clipping"),
    "half": (opacus(smaller(0.5)), "noise-size"),
    "5%": (opacus(smaller(0.95)), "noise-size"),
    "1%": (opacus(smaller(0.99)), "noise-size"),
    "once an epoch": (opacus(Once), "noise-missing"),
    "reused": (opacus(Reused), "noise-reused"),
    "equal in two tables": (opacus(Shared), "noise-repeated"),
    "touched rows": (opacus(Touched), "noise-missing"),
    "known seed": (opacus(Seeded), "noise-seed"),
    "uniform noise": (opacus(Flat), "noise-shape"),
    "divided by the batch": (opacus(ByBatch), "noise-scale"),
    "statistic in a buffer": (buffered, "transcript"),
    "normalised by data": (normalised, "sum"),
    "start": (initialised, "transcript"),
    "shuffled": (shuffled, "batch-shape"),
    "half the rate": (half_rate, "batch-rate"),
    "every other step counted": (uncounted, "steps-counted"),
    "early stop on the training loss": (stopped, "transcript"),
    "stop on a parity": (by_parity, "transcript"),
    "schedule by the training loss": (scheduled, "transcript"),
    "vocabulary": (vocabulary, "transcript"),
    "own no clip": (with_fault("own no clip"), "sum"),
    "own half": (with_fault("own half"), "noise-size"),
    "own seed": (with_fault("own seed"), "noise-seed"),
    "own by batch": (with_fault("own by batch"), "noise-scale"),
}
HONEST: dict[str, Train] = {
    "SGD": opacus(),
    "Adam": opacus(moves=lambda weights: torch.optim.Adam(weights, lr=0.01)),
    "momentum": opacus(moves=lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9)),
    "schedule": stepped,
    "public early stop": public_stop,
    "own loop": own,
}
# Where faults of a loop of one's own are marked by what they do, and not by a line.
OWN = {"own no clip": "np.minimum", "own half": "noises.normal", "own seed": "default_rng(3)",
       "own by batch": "watch.step"}  # fmt: skip


def ratings(seed: int) -> Ratings:
    source = np.random.default_rng(seed)
    users, items = np.divmod(source.permutation(USERS * ITEMS)[:ROWS], ITEMS)
    values = source.integers(1, 6, ROWS).astype(np.float32)
    return Ratings.build(users, items, values, USERS, ITEMS, Scale())


def verdicts(train: Train, name: str, seed: int) -> list[Verdict]:
    examination = Examination(Trainer(train, name, seed, 1e-5), ratings(seed), 4.0)
    first, *others = (part() for _, part in examination.parts())
    return first.joined(others).verdicts


def is_marked(verdict: Verdict, fault: str) -> bool:
    """Whether the line that is blamed is marked with the fault."""
    if verdict.place is None or verdict.place.file != __file__:
        return False
    line = inspect.getsource(inspect.getmodule(own)).split("\n")[verdict.place.line - 1]
    return fault in line.partition("FAULT")[2] or OWN.get(fault, "\0") in line


def main(seeds: int, honest: int, names: tuple[str, ...] = ()) -> None:
    """Print how many faults are found and located, and how many honest trainings are accused."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Full backward hook|Secure RNG")
    # What a fault implies takes longer than to find it.
    with mock.patch.object(Law, "epsilon", 4.0):
        for fault, (train, check) in FAULTS.items():
            if names and fault not in names:
                continue
            found = located = 0
            for seed in range(seeds):
                said = [one for one in verdicts(train, fault, seed) if one.check == check]
                found += any(one.fails for one in said)
                located += any(one.fails and is_marked(one, fault) for one in said)
            print(f"{fault}: {check} found {found}, line right {located}, of {seeds}", flush=True)
        for name, train in HONEST.items() if not names else ():
            accused = [
                verdict.check
                for seed in range(honest)
                for verdict in verdicts(train, name, 1000 + seed)
                if verdict.fails
            ]
            print(f"honest {name}: accused {len(accused)} of {honest} {accused}", flush=True)


SHAPE, RATINGS, BATCHES, STEPS, FACTORS = (943, 1682), 100_000, 0.0102, 488, 16
DELTA, MEDIAN = 1e-5, 65


class Canaries:
    """A training with canaries whose coins are thrown, and their scores.

    The score of a canary is Σ_t ln(1 − q + q exp((⟨S + Z, g⟩ − ‖g‖²/2)/σ²)), where g is its clipped
    gradient at the weights before step t, and C = 1.
    """

    def __init__(self, noise_multiplier: float, share: float, canaries: int) -> None:
        """Train with a share of the stated noise."""
        self.noise_multiplier, self.share, self.count = noise_multiplier, share, canaries
        self.coins = np.random.default_rng(1).random(canaries) < 0.5
        self.scores = np.zeros(canaries)

    def ratings(self) -> Ratings:
        """Return random ratings, with the canaries whose coins say so."""
        source, (users, items) = np.random.default_rng(0), SHAPE
        cells = source.choice(users * items, RATINGS, replace=False)
        own, highest = np.flatnonzero(self.coins), np.full(int(self.coins.sum()), 5.0)
        user, item = (
            np.append(*pair)
            for pair in zip(np.divmod(cells, items), (own + users, own + items), strict=True)
        )
        value = np.append(source.integers(1, 6, RATINGS), highest)
        return Ratings.build(user, item, value, users + self.count, items + self.count, Scale())

    def train(self, interactions: Any, seed: int, watch: Any) -> None:
        """Train, and add up the scores."""
        source, table, sigma = (
            np.random.default_rng(seed),
            interactions.table,
            self.noise_multiplier,
        )
        p, q = (source.normal(0, 0.1, (count, FACTORS)) for count in interactions.shape)
        watch.own(noise_multiplier=sigma, max_grad_norm=1.0, sample_rate=BATCHES, weights=[p, q])
        for _ in range(STEPS):
            rows = np.flatnonzero(source.random(len(table.user)) < BATCHES)
            users, items = table.user[rows], table.item[rows]
            sums = [np.zeros_like(p), np.zeros_like(q)]
            gradients = clipped(p[users], q[items], table.rating[rows])
            for total, index, gradient in zip(sums, (users, items), gradients, strict=True):
                np.add.at(total, index, gradient)
            noise = [self.share * sigma * source.standard_normal(part.shape) for part in sums]
            own = clipped(p[SHAPE[0] :], q[SHAPE[1] :], np.full(self.count, 5.0))
            seen = [part + other for part, other in zip(sums, noise, strict=True)]
            seen = seen[0][SHAPE[0] :], seen[1][SHAPE[1] :]
            product = sum((a * b).sum(1) for a, b in zip(seen, own, strict=True))
            self.scores += ratios(product, sum((part**2).sum(1) for part in own), sigma)
            moves = watch.step(sums, noise, BATCHES * RATINGS, rows=len(rows))
            p -= 0.5 * moves[0]
            q -= 0.5 * moves[1]


def clipped(p: Any, q: Any, values: Any) -> tuple[Any, Any]:
    """Return the clipped gradients of rows by the factors of their users and items."""
    error = 2 * ((p * q).sum(1) - values)[:, None]
    norms = np.sqrt(((error * p) ** 2 + (error * q) ** 2).sum(1, keepdims=True))
    return error * q / np.maximum(norms, 1), error * p / np.maximum(norms, 1)


def ratios(product: Any, square: Any, sigma: float) -> Any:
    """Return the log-likelihood ratios of a step, in which a batch takes a row with rate q."""
    return np.logaddexp(np.log1p(-BATCHES), np.log(BATCHES) + (product - square / 2) / sigma**2)


def bound(scores: Any, coins: Any) -> float:
    """Return the ε that is certified with 95 % confidence."""
    return one_run_scores_epsilon(scores, coins, delta=DELTA, seed=0).lower


def by_peer(scores: Any, coins: Any) -> str:
    """Return what jax-privacy's auditor says of the same scores; empty without it."""
    if find_spec("jax_privacy") is None:
        return ""
    from jax_privacy.auditing import CanaryScoreAuditor

    auditor = CanaryScoreAuditor(scores[coins], scores[~coins])
    one_run, gdp = auditor.epsilon_one_run(0.05, DELTA), auditor.epsilon_from_gdp(0.05, DELTA)
    return f"; jax-privacy: {one_run:.2g} in one run, {gdp:.2g} by its epsilon_from_gdp"


def power(sigma: float, share: float, canaries: int, claim: float, times: int = 20) -> float:
    """Return how often canaries with gradients of norm C would refute a claim."""
    refuted, source = 0, np.random.default_rng(2)
    for _ in range(times):
        coins, scores = source.random(canaries) < 0.5, np.zeros(canaries)
        for _ in range(STEPS):
            taken = coins & (source.random(canaries) < BATCHES)
            scores += ratios(taken + share * sigma * source.standard_normal(canaries), 1.0, sigma)
        refuted += bound(scores, coins) > claim
    return refuted / times


def epsilons(claims: tuple[float, ...], canaries: int) -> None:
    """Print the ε of honest trainings and of those with half of the noise."""
    source = np.random.default_rng(3)
    scores, coins = source.standard_normal(canaries), source.random(canaries) < 0.5
    print(f"pure noise: certified {bound(scores, coins):.2g}{by_peer(scores, coins)}", flush=True)
    for claim in claims:
        sigma = noise_multiplier(claim, delta=DELTA, compositions=STEPS, sampling=BATCHES)
        for share in (1.0, 0.5):
            training = Canaries(sigma, share, canaries)
            run = Trainer(training.train, "canaries", 3, DELTA).run(training.ratings())
            law, size = Law.of(run.setup, STEPS, DELTA), measured_size(run.steps)
            ends = [law.changed(noise=end).epsilon for end in (size.upper, size.lower)]
            certified = bound(training.scores, training.coins)
            of_user = law.changed(noise=share).of_user(MEDIAN)
            refuted = power(sigma, share, canaries, claim)
            print(
                f"{share:g} of the noise: stated {claim:g}, observed {ends[0]:.4g} to "
                f"{ends[1]:.4g}, of a user with {MEDIAN} rows {of_user:.3g}, "
                f"{canaries} canaries certify {certified:.2g}, power {refuted:.2f}"
                f"{by_peer(training.scores, training.coins)}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--honest", type=int, default=34)
    parser.add_argument("--faults", nargs="*", default=())
    parser.add_argument("--epsilons", action="store_true")
    parser.add_argument("--canaries", type=int, default=1000)
    options = parser.parse_args()
    if options.epsilons:
        epsilons((1.0, 4.0, 10.0), options.canaries)
    else:
        main(options.seeds, options.honest, tuple(options.faults))
