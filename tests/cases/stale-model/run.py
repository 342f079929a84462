import numpy as np
from model import Model
from scipy.sparse import csr_array

from dpaudit import audit_recommender

matrix = csr_array((np.random.default_rng(1).random((50, 40)) < 0.3).astype(np.float32))
gate = {"metric": "attack.tpr", "max": 0.5, "where": {"observer": "scores", "at": 0.1}}
report = audit_recommender(
    Model, matrix, trainings=32, targets=60, observers=["scores"], gates=[gate]
)
for gate in report.record.gates:
    print("gate", gate.outcome)
