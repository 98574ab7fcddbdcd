"""D_rho and U_rho at 60 digits by their definitions, how much float64 may miss, and inputs to compare on."""

from __future__ import annotations

import mpmath as mp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

INF = float("inf")
EPS = 2.0**-52
RHOS = [0, 1e-9, 1e-3, 0.25, 0.5, 0.75, 1 - 1e-9, 1, 1 + 1e-9, 1.5, 2, 8, 64, 1000, 10_000, INF]
FINITE = [rho for rho in RHOS if 0 < rho < INF]
BELOW_ONE = [rho for rho in RHOS if 0 < rho < 1]
PLAIN = [rho for rho in FINITE if rho != 1]


# --- references and inputs ----------------------------------------------------------------------------


def exact(values):
    return [value if isinstance(value, mp.mpf) else mp.mpf(float(value)) for value in values]


def exact_divergence(rho, mu, d):
    """Returns D_rho(mubar || d) by its definition, at the working precision of mpmath."""
    mu, d = exact(mu), exact(d)
    total = mp.fsum(mu)
    bar = [m / total for m in mu]
    if rho == 0:
        return mp.fsum(y * mp.log(y / x) for x, y in zip(bar, d, strict=True) if y > 0)
    weighted = [(x, y) for x, y in zip(bar, d, strict=True) if x > 0]
    if rho == 1:
        return mp.fsum(x * mp.log(x / y) for x, y in weighted)
    if rho == INF:
        return max(mp.log(x / y) for x, y in weighted)
    order = mp.mpf(rho)
    return mp.log(mp.fsum(x**order * y ** (1 - order) for x, y in weighted)) / (order - 1)


def exact_value(rho, mu, d):
    """Returns U_rho(d) by the paper's eq. (1); `d` may hold mpmath numbers."""
    order = mp.mpf(rho)
    if rho == 1:
        return mp.fsum(m * mp.log(y) for m, y in zip(exact(mu), d, strict=True))
    return mp.fsum(m**order * y ** (1 - order) for m, y in zip(exact(mu), d, strict=True)) / (1 - order)


def rounding(mu, d):
    seen = np.asarray(d)[np.asarray(d) > 0]
    weighted = np.asarray(mu)[np.asarray(mu) > 0]
    return EPS * (1 + np.abs(np.log(weighted)).max() + np.abs(np.log(seen)).max())


def normalised(values):
    return np.asarray(values) / np.sum(values)


def ordinary(seed):
    """Returns weights between 1e-3 and about 5, and a random occupancy."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 40))
    return rng.gamma(1.0, size=size) + 1e-3, rng.dirichlet(np.ones(size))


def spread(seed):
    """Returns weights from 1e-100 to 1e100, and an occupancy with entries down to 1e-100."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 30))
    mu = 10.0 ** rng.uniform(-100, 100, size)
    mu[:2] = 1e-100, 1e100
    return mu, normalised(10.0 ** rng.uniform(-100, 0, size))


positive = st.floats(1e-3, 1e3)


@st.composite
def weights_and_occupancy(draw):
    size = draw(st.integers(2, 8))
    mu = draw(hnp.arrays(float, size, elements=positive))
    return mu, normalised(draw(hnp.arrays(float, size, elements=positive)))
