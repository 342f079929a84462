"""A training by DP-SGD with Opacus: put your own in its place, with the line that calls watch.

It needs PyTorch and Opacus: python -m pip install 'torch>=2.4' 'opacus>=1.5.4'
"""

import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, NOISE, NORM = 1, 64, 1.0, 1.0


class Factors(nn.Module):
    """A factorisation with 16 factors of each user and item."""

    def __init__(self, users, items):
        super().__init__()
        self.users, self.items = nn.Embedding(users, 16), nn.Embedding(items, 16)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, users, items):
        """Return the scores of pairs."""
        return (self.users(users) * self.items(items)).sum(1)


def train(interactions, seed, watch):
    """Train a factorisation by DP-SGD with Opacus."""
    warnings.filterwarnings("ignore", module="opacus|torch")
    torch.manual_seed(seed)  # all that is random follows from the seed
    table = interactions.table
    data = TensorDataset(
        torch.from_numpy(table.user.astype(np.int64)),
        torch.from_numpy(table.item.astype(np.int64)),
        torch.from_numpy(table.rating.copy()),
    )
    model = Factors(*interactions.shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=NOISE,
        max_grad_norm=NORM,
    )
    watch(optimizer, model=model, loader=loader)  # the one line that an audit needs
    for _ in range(EPOCHS):
        for users, items, ratings in loader:
            optimizer.zero_grad()
            ((model(users, items) - ratings) ** 2).mean().backward()
            optimizer.step()
    return model
