"""Compiled (numba) loops on plain arrays; the caller validates the arguments.

Each file covers one family: a scalar or row kernel with its mathematics, then the loop over trials.
"""

import sys
import warnings

# Numba obeys `.numba_config.yaml` of the current folder, by which it overwrites files and imports
# modules; without yaml it reads none.
_yaml = sys.modules.pop("yaml", None)
sys.modules["yaml"] = None  # type: ignore[assignment]
warnings.filterwarnings("ignore", "A Numba config file is found")
import numba  # noqa: E402, F401

del sys.modules["yaml"]
if _yaml is not None:
    sys.modules["yaml"] = _yaml
