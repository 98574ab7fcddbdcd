"""Types of the arguments of public functions, for type checkers and editors.

Nothing here exists at run time: the names are imported where `typing.TYPE_CHECKING` holds, so that a
signature can name a type of a later package, or of a package that may not be installed, without loading it.
What a value means is checked when it is used, with a message of its own. `tests/typed_calls.py` is checked by
`make check`: calls that a type checker must accept, and calls that it must refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
    from typing import Any, Literal, Protocol

    import gymnasium
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.vector import VectorEnv
    from minari import MinariDataset
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix

    from rhocover.datasets.tally import Tally
    from rhocover.environments.encoding.base import StateCode
    from rhocover.environments.encoding.bins import Bins, QuantileBins
    from rhocover.environments.encoding.hashes import ImageCells, SimHash
    from rhocover.environments.encoding.nets import Net
    from rhocover.exploring.belief.learned import Learned
    from rhocover.exploring.explorers import Explorer
    from rhocover.learning.rules import Rule
    from rhocover.mdp import MDP
    from rhocover.planning.conditions import Condition

    Location = os.PathLike[str] | str
    Method = Literal[
        "interior_point", "frank_wolfe", "frank_wolfe_line_search", "frank_wolfe_plain", "leximin"
    ]

    FeatureMethod = Literal["interior_point", "corrective", "frank_wolfe"]

    # Models and weights.

    Whole = int | float  # a whole number, also as a float: 1e4
    Weights = ArrayLike | Callable[[MDP], ArrayLike]  # [S, A], one per pair, a name (an ArrayLike, too)
    Features = ArrayLike | Callable[[MDP], ArrayLike]  # [S, A, k], or one row per pair
    WeightsOrRule = ArrayLike | Rule | Callable[[MDP], ArrayLike]  # or the name of a rule
    Values = ArrayLike | Callable[[MDP], ArrayLike]  # [S, A], one per pair or per state
    Covered = ArrayLike | sparray | spmatrix  # a name, labels per state or pair, or a matrix [G, n]
    Conditions = Condition | Sequence[Condition]
    Start = int | ArrayLike  # a state, or a probability for each state
    Knowledge = Literal["known", "learned", "posterior", "from_scratch"] | Learned
    NamedExplorer = str | Explorer

    # Environments.

    Environment = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]
    Maker = str | EnvSpec | Callable[[], gymnasium.Env[Any, Any]]  # an id, module:function, or a function
    States = Bins | QuantileBins | Net | SimHash | ImageCells | StateCode | Callable[[Any], Hashable]
    Actions = int | Sequence[int] | ArrayLike

    # Data sets.

    class DataFrame(Protocol):
        """A data frame of pandas, polars or another library."""

        @property
        def columns(self) -> Any: ...  # noqa: D102

        def __getitem__(self, key: Any, /) -> Any: ...

    class Tallied(Protocol):
        """A result with the counts of a data set."""

        @property
        def tally(self) -> Tally: ...  # noqa: D102

    class ArrowData(Protocol):
        """A table, a batch, batches or a data set of pyarrow."""

        @property
        def schema(self) -> Any: ...  # noqa: D102

    class Buffer(Protocol):
        """A replay or rollout buffer of Stable-Baselines3."""

        @property
        def observations(self) -> Any: ...  # noqa: D102

        @property
        def actions(self) -> Any: ...  # noqa: D102

        @property
        def pos(self) -> int: ...  # noqa: D102

    Data = (
        Location | Mapping[str, Any] | DataFrame | tuple[ArrayLike, ...] | Iterable[Any] | Tally | Tallied
        | MinariDataset | ArrowData | Buffer
    )  # fmt: skip
    Columns = Mapping[str, str | Sequence[str]]  # the column of each role

    # Comparisons.

    Place = MDP | str | Environment | EnvSpec | Callable[[], Environment]
    Places = Place | Iterable[Place] | Mapping[str, Place]
    Explorers = NamedExplorer | Iterable[NamedExplorer] | Mapping[str, NamedExplorer]
    PlaceWeights = WeightsOrRule | Callable[[MDP], ArrayLike]
