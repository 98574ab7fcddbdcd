"""Information matrices, and symmetric matrices as vectors.

Visits d of features phi `[n, k]` have the information matrix M(d) = sum_i d_i M_i with M_i = phi_i phi_i'.
`Atoms` are such M_i: those of the pairs, of rank 1 (`Rays`), or those of whole occupancies (`Blends`), whose
weights mix them. A matrix W scores each by tr(W M_i), which for a pair is phi_i'W phi_i.

svec(H) has the entries i <= j of a symmetric H, off the diagonal times sqrt 2, so that tr(G H) is the inner
product of svec(G) and svec(H). Sums over pairs are made in blocks, so M and scores need no memory beyond phi;
vectors of all pairs have n k(k+1)/2 entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rhocover.checks import FloatArray, IntArray

BLOCK = 65_536  # pairs at a time: 50 MB with 100 features


def information(phi: FloatArray, d: FloatArray) -> FloatArray:
    """Returns M = sum_i d_i phi_i phi_i', `[k, k]`, exactly symmetric."""
    M = np.zeros((phi.shape[1], phi.shape[1]))
    for first in range(0, d.size, BLOCK):
        rows = phi[first : first + BLOCK]
        M += (rows.T * d[first : first + BLOCK]) @ rows
    return (M + M.T) / 2


def quadratic_forms(psi: FloatArray, G: FloatArray) -> FloatArray:
    """Returns psi_i'G psi_i for each row, `[n]`."""
    parts = [psi[first : first + BLOCK] for first in range(0, len(psi), BLOCK)]
    return np.concatenate([np.sum((part @ G) * part, axis=1) for part in parts] or [np.zeros(0)])


def svec_places(k: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Returns (i, j, weight) of the entries i <= j; svec(H) = weight H_ij keeps inner products."""
    i, j = np.triu_indices(k)
    return i.astype(np.int64), j.astype(np.int64), np.where(i == j, 1.0, np.sqrt(2.0))


def svec_outer(psi: FloatArray) -> FloatArray:
    """Returns svec(psi_i psi_i') for each row, `[n, k(k+1)/2]`."""
    i, j, weight = svec_places(psi.shape[1])
    return psi[:, i] * psi[:, j] * weight


# What is visited or mixed.


class Atoms(Protocol):
    """Information matrices M_i of what is visited or mixed; M(d) = sum_i d_i M_i."""

    @property
    def dimension(self) -> int: ...  # noqa: D102

    def information(self, d: FloatArray) -> FloatArray:
        """Returns M(d), `[k, k]`."""
        ...

    def scores(self, W: FloatArray) -> FloatArray:
        """Returns tr(W M_i), `[n]`."""
        ...

    def vectors(self, T: FloatArray) -> FloatArray:
        """Returns svec(T'M_i T), `[n, k(k+1)/2]`."""
        ...


@dataclass(frozen=True, eq=False)
class Rays:
    """The pairs' own matrices phi_i phi_i'; `phi` `[n, k]`."""

    phi: FloatArray

    @property
    def dimension(self) -> int:
        """The number of features."""
        return int(self.phi.shape[1])

    def information(self, d: FloatArray) -> FloatArray:
        """Returns M(d), `[k, k]`."""
        return information(self.phi, d)

    def scores(self, W: FloatArray) -> FloatArray:
        """Returns phi_i'W phi_i, `[n]`."""
        return quadratic_forms(self.phi, W)

    def vectors(self, T: FloatArray) -> FloatArray:
        """Returns svec(T'phi_i phi_i'T), `[n, k(k+1)/2]`."""
        return svec_outer(self.phi @ T)


@dataclass(frozen=True, eq=False)
class Blends:
    """The matrices of whole occupancies, `[n, k, k]`: their weights are a mixture."""

    matrices: FloatArray

    @property
    def dimension(self) -> int:
        """The number of features."""
        return int(self.matrices.shape[1])

    def information(self, d: FloatArray) -> FloatArray:
        """Returns M(d), `[k, k]`."""
        return np.tensordot(d, self.matrices, axes=1)

    def scores(self, W: FloatArray) -> FloatArray:
        """Returns tr(W M_i), `[n]`."""
        return np.tensordot(self.matrices, W, axes=2)

    def vectors(self, T: FloatArray) -> FloatArray:
        """Returns svec(T'M_i T), `[n, k(k+1)/2]`."""
        i, j, weight = svec_places(self.dimension)
        return (T.T @ self.matrices @ T)[:, i, j] * weight
