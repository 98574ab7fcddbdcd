"""Pictures of coverage: where the visits go, which pairs get too few, what rho buys.

Three kinds of picture. A *map* paints one number per pair on the cells of the model's layout; an
occupancy in a sequential colour map from 0, a ratio target/visits in a diverging one, logarithmic and
centred at 1. A *summary* is several maps with one colour scale. A *frontier* shows divergence and worst
ratio against rho from 0 to infinity. Pairs that do not exist, or that carry no weight, stay hatched.

This is the only file that imports matplotlib, and it never touches pyplot: figures are plain values,
nothing stays open, no display is needed.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.files import write_atomically
from rhocover.mdp import MDP
from rhocover.report.cells import Cells, cells_of
