"""Environments that break Gymnasium's contract, each in one way, from a random step on.

`World` is a small ring that keeps to the contract and takes down what it showed. A `Fault` is what one kind does
instead: to what `step` and `reset` return, to the spaces, or to the process around it.
"""

from __future__ import annotations

import dataclasses
import decimal
import fractions
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from found import Rng
from gymnasium import spaces

import rhocover as rc

NUM_STATES, NUM_ACTIONS, LIMIT = 6, 3, 12
Shown = tuple[Any, ...]
Change = Callable[[Any, Any], Any]  # of the environment and what it would show


@dataclass(frozen=True)
class Fault:
    """What a kind of environment does wrong, from step `first` on, or at that step alone."""

    step: Change = lambda env, shown: shown
    reset: Change = lambda env, shown: shown
    space: Callable[[], Any] = lambda: spaces.Discrete(NUM_STATES)
    actions: Callable[[], Any] = lambda: spaces.Discrete(NUM_ACTIONS)
    show: Callable[[int], Any] = lambda state: state  # what is seen of a state
    begin: Callable[[Any], Any] = lambda env: None  # called when the environment is made
    close: Callable[[Any], Any] = lambda env: None
    options: Mapping[str, Any] = field(default_factory=dict)  # more arguments of the verb
    first: int = 1
    is_once: bool = False
    is_honest: bool = False  # what it shows is all right, only its manners are odd
    is_interrupt: bool = False  # what it raises is to pass as it is
    can_resume: bool = False  # the environment mended, the collection goes on as if nothing had been
    patience: float = 90.0


class World(gym.Env):
    """A ring of six states; it takes down what it shows."""

    metadata: Any = {"render_modes": []}  # noqa: RUF012

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault or Fault()
        self.observation_space, self.action_space = self.fault.space(), self.fault.actions()
        self.count, self.state, self.since = 0, 0, 0
        self.shown: list[Shown] = []
        self.fault.begin(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state, self.since = int(self.np_random.integers(NUM_STATES)), 0
        shown = (self.fault.show(self.state), {})
        return self.fault.reset(self, shown) if self._is_now else shown

    def step(self, action: Any) -> Any:
        self.count, self.since = self.count + 1, self.since + 1
        number = int(np.asarray(action).ravel()[0]) % NUM_ACTIONS
        self.state = (self.state + number - 1 + int(self.np_random.random() < 0.1)) % NUM_STATES
        ended = self.state == 0 and bool(self.np_random.random() < 0.3)
        shown: Any = (self.fault.show(self.state), float(number), ended, self.since >= LIMIT, {})
        shown = self.fault.step(self, shown) if self._is_now else shown
        self.shown.append(_kept(shown))
        return shown

    def close(self) -> None:
        self.fault.close(self)

    @property
    def _is_now(self) -> bool:
        first = self.fault.first
        return self.count == first if self.fault.is_once else self.count >= first


def _kept(shown: Any) -> Any:
    """Returns what was shown, with arrays as they are now."""
    if not isinstance(shown, tuple):
        return shown
    return tuple(thing.copy() if isinstance(thing, np.ndarray) else thing for thing in shown)


class Angry:
    """An object that raises at everything it is asked."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("do not touch")

    __bool__ = __float__ = __int__ = __len__ = __iter__ = __eq__ = __repr__ = __array__ = _raise  # type: ignore[assignment]
    __hash__ = object.__hash__


# --- values in the place of what is returned ------------------------------------------------------------


def values() -> dict[str, Any]:
    """Returns odd values by name."""
    return {
        "None": None, "text": "text", "text of a number": "1", "bytes": b"1", "nan": math.nan, "inf": math.inf, "10**400": 10**400,
        "-(10**400)": -(10**400), "an array": np.array(1), "an array of one": np.array([1]), "an array of two": np.array([1, 2]),
        "an empty array": np.array([]), "a list": [1], "a dict": {"a": 1}, "an object": object(), "an angry object": Angry(),
        "complex": 1j, "a decimal": decimal.Decimal("1e500"), "a fraction": fractions.Fraction(1, 3), "half": np.float16(1),
        "uint64": np.uint64(2**64 - 1), "int8": np.int8(1), "True": True, "-1": -1, "2**63": 2**63, "1.5": 1.5, "a date": np.datetime64(1, "s"),
        "a function": len, "masked": np.ma.masked, "a type": int, "escapes": "\x1b[31mred\x1b[0m\r\n\0",
        "a long text": "x" * 10**6, "an object array": np.array([None, 1], object), "minus zero": -0.0, "subnormal": 5e-324,
    }  # fmt: skip


FIELDS = ("observation", "reward", "terminated", "truncated", "info")


def with_value(place: int, value: Any) -> Change:
    def step(env: Any, shown: Shown) -> Shown:
        return (*shown[:place], value, *shown[place + 1 :])

    return step


def value_kinds() -> dict[str, Fault]:
    """Returns a kind for each odd value in each place of what `step` returns, and in that of a first observation."""
    kinds = {
        f"{name} is {title}": Fault(with_value(place, value))
        for place, name in enumerate(FIELDS)
        for title, value in values().items()
    }
    kinds |= {
        f"reset shows {title}": Fault(reset=lambda env, shown, value=value: (value, {}))
        for title, value in values().items()
    }
    return kinds


def shape_kinds() -> dict[str, Fault]:
    """Returns kinds that return something else than five things, or two."""
    ways: dict[str, Change] = {
        "four things": lambda env, shown: shown[:4], "six things": lambda env, shown: (*shown, 1), "None": lambda env, shown: None,
        "a list": lambda env, shown: list(shown), "nothing": lambda env, shown: (), "text": lambda env, shown: "abcde",
        "a dict": lambda env, shown: dict(enumerate(shown)),
        "an angry object": lambda env, shown: Angry(), "things forever": lambda env, shown: iter(int, 1),
    }  # fmt: skip
    kinds = {f"step returns {title}": Fault(change) for title, change in ways.items()}
    return kinds | {f"reset returns {title}": Fault(reset=change) for title, change in ways.items()}


# --- exceptions -----------------------------------------------------------------------------------------


class OddError(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def exceptions() -> dict[str, BaseException]:
    """Returns exceptions of all sorts by name."""
    made: list[BaseException] = [
        ValueError("a value"), KeyError("a key"), IndexError("an index"), TypeError("a type"), AttributeError("a name"), StopIteration(),
        StopAsyncIteration(), GeneratorExit(), MemoryError(), RecursionError("too deep"), OSError(28, "No space left on device", "/dev/full"),
        BrokenPipeError(32, "Broken pipe"), TimeoutError("too late"), AssertionError(), NotImplementedError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        SyntaxError("syntax"), ImportError("no module"), ZeroDivisionError("x / 0"), FloatingPointError(), EOFError(), LookupError(), Warning("a warning"),
        ExceptionGroup("several", [ValueError("one"), OddError()]), OddError(), RuntimeError("\x1b[31mred\x1b[0m\nTraceback (most recent call last):"),
        RuntimeError("x" * 10**6), rc.errors.InvalidArgumentError("of ours"), BaseException("plain"),
    ]  # fmt: skip
    return {f"{type(error).__name__} {k}": error for k, error in enumerate(made)}


INTERRUPTS = {
    "KeyboardInterrupt": KeyboardInterrupt(), "SystemExit(3)": SystemExit(3), "SystemExit(0)": SystemExit(0),
}  # fmt: skip


def raising(error: BaseException) -> Change:
    def change(env: Any, shown: Shown) -> Shown:
        raise error

    return change


def recursing(env: Any, shown: Any) -> Any:
    return recursing(env, shown)


def hurting(env: Any, shown: Any) -> Any:
    return np.zeros(10**14)  # more than any machine has


def exception_kinds() -> dict[str, Fault]:
    kinds = {}
    for name, error in (exceptions() | INTERRUPTS).items():
        passes = not isinstance(error, Exception)
        kinds[f"step raises {name}"] = Fault(
            raising(error), is_once=True, is_interrupt=passes, can_resume=True
        )
        kinds[f"reset raises {name}"] = Fault(reset=raising(error), is_interrupt=passes)
        kinds[f"close raises {name}"] = Fault(
            close=lambda env, e=error: raising(e)(env, ()), is_interrupt=passes
        )
    kinds["step recurses"] = Fault(recursing, is_once=True, can_resume=True)
    kinds["step takes all memory"] = Fault(hurting, is_once=True, can_resume=True)
    return kinds


# --- spaces ---------------------------------------------------------------------------------------------


def raising_property(error: BaseException) -> property:
    def get(self: Any) -> Any:
        raise error

    return property(get, lambda self, value: None)


def _attribute(name: str, value: Any) -> Callable[[Any], None]:
    """Returns what gives an environment a class of its own with another attribute."""

    def begin(env: Any) -> None:
        env.__class__ = type("World", (World,), {name: value})

    return begin


def as_box(state: int) -> Any:
    return np.array([state / NUM_STATES, 0.5], np.float32)


def box(low: Any = 0.0, high: Any = 1.0, shape: tuple[int, ...] = (2,), dtype: Any = np.float32) -> Any:
    return lambda: spaces.Box(low, high, shape, dtype)


IMAGE = (84, 84, 3)


def as_image(state: int) -> Any:
    return np.full(IMAGE, state, np.uint8)


def pixel(image: Any) -> Any:
    return [float(image[0, 0, 0])]


def ok_spaces() -> dict[str, Fault]:
    """Returns kinds that keep to the contract in unusual spaces."""
    two = rc.Bins((3, 2))
    many = np.zeros(70, np.float32)
    return {
        "numbers from -5 on": Fault(space=lambda: spaces.Discrete(NUM_STATES, start=-5), show=lambda state: state - 5, is_honest=True),
        "a box": Fault(space=box(), show=as_box, options={"states": two}, is_honest=True),
        "an unbounded box": Fault(space=box(-np.inf, np.inf), show=as_box, options={"states": rc.Bins((3, 2), low=0.0, high=1.0)}, is_honest=True),
        "a box without a code": Fault(space=box(), show=as_box),
        "many numbers": Fault(space=lambda: spaces.MultiDiscrete([NUM_STATES, 2]), show=lambda state: np.array([state, 0]), is_honest=True),
        "70 numbers": Fault(space=lambda: spaces.MultiDiscrete([2] * 70), show=lambda state: np.arange(70) % 2),
        "70 bits": Fault(space=lambda: spaces.MultiBinary(70), show=lambda state: np.arange(70, dtype=np.int8) % 2),
        "70 dimensions": Fault(space=box(shape=(70,)), show=lambda state: many + state / 9, options={"states": rc.Bins(2)}),
        "70 dimensions, two cut": Fault(space=box(shape=(70,)), show=lambda state: many + state / 9, options={"states": rc.Bins(2, of=(0, 69))}, is_honest=True),
        "images": Fault(space=box(0, 255, IMAGE, np.uint8), show=as_image, options={"states": rc.Bins(6, 0.0, 6.0, of=pixel)}, is_honest=True),
        "a picture of one number": Fault(space=box(0, 255, (), np.uint8), show=np.uint8, options={"states": rc.Bins(3)}, is_honest=True),
        "a dict": Fault(space=lambda: spaces.Dict(a=spaces.Discrete(NUM_STATES)), show=lambda state: {"a": state}),
        "a tuple": Fault(space=lambda: spaces.Tuple((spaces.Discrete(NUM_STATES),)), show=lambda state: (state,)),
        "text": Fault(space=lambda: spaces.Text(3), show=str),
        "a sequence": Fault(space=lambda: spaces.Sequence(spaces.Discrete(NUM_STATES)), show=lambda state: (state,)),
        "box actions": Fault(actions=box()),
        "many actions": Fault(actions=lambda: spaces.MultiDiscrete([3, 2]), is_honest=True),
        "10^6 actions": Fault(actions=lambda: spaces.Discrete(10**6)),
        "10^9 actions": Fault(actions=lambda: spaces.Discrete(10**9)),
        "2^62 actions": Fault(actions=lambda: spaces.Discrete(2**62)),
        "70 numbers of an action": Fault(actions=lambda: spaces.MultiDiscrete([3] * 70)),
        "2^62 states": Fault(space=lambda: spaces.Discrete(2**62), is_honest=True),
        "one action": Fault(actions=lambda: spaces.Discrete(1)),
        "actions from 7 on": Fault(actions=lambda: spaces.Discrete(NUM_ACTIONS, start=7), is_honest=True),
        "a buffer that is used again": Fault(space=box(), show=_Buffer().show, options={"states": two}),
    }  # fmt: skip


class _Buffer:
    """Shows the same array each time, with other contents."""

    def __init__(self) -> None:
        self.array = np.zeros(2, np.float32)

    def show(self, state: int) -> Any:
        self.array[:] = as_box(state)
        return self.array


def space_kinds() -> dict[str, Fault]:
    """Returns kinds whose spaces, or other attributes, are none."""
    error = RuntimeError("no such thing")
    kinds = ok_spaces()
    for name in (
        "observation_space",
        "action_space",
        "spec",
        "unwrapped",
        "metadata",
        "np_random",
        "render_mode",
    ):
        for title, value in (
            ("raises", raising_property(error)),
            ("is None", None),
            ("is text", "text"),
            ("is angry", Angry()),
        ):
            kinds[f"{name} {title}"] = Fault(begin=_attribute(name, value))  # fmt: skip
    kinds["the space changes"] = Fault(_change_space)
    kinds["the actions change"] = Fault(_change_actions, is_honest=True)
    kinds["a box of nan"] = Fault(
        _with_box([np.nan, 0.5]), space=box(), show=as_box, options={"states": rc.Bins((3, 2))}
    )
    kinds["a box outside"] = Fault(
        _with_box([9.0, 0.5]), space=box(), show=as_box, options={"states": rc.Bins((3, 2))}
    )
    kinds["a box of another shape"] = Fault(
        _with_box([0.5]), space=box(), show=as_box, options={"states": rc.Bins((3, 2))}
    )
    kinds["a box of 10^308"] = Fault(
        _with_box([1e308, 0.5]), space=box(), show=as_box, options={"states": rc.Bins((3, 2))}
    )
    kinds["a code that raises"] = Fault(options={"states": _refuse})
    kinds["a code that returns lists"] = Fault(options={"states": lambda shown: [shown]})
    kinds["a code that is never the same"] = Fault(options={"states": lambda shown: object()})
    kinds["a code that returns nan"] = Fault(options={"states": lambda shown: math.nan})
    return kinds  # fmt: skip


def _change_space(env: Any, shown: Shown) -> Shown:
    env.observation_space = spaces.Box(0, 1, (3,))
    return (np.zeros(3, np.float32), *shown[1:])


def _change_actions(env: Any, shown: Shown) -> Shown:
    env.action_space = spaces.Discrete(1)
    return shown


def _with_box(numbers: list[float]) -> Change:
    return with_value(0, np.array(numbers))


def _refuse(shown: Any) -> Any:
    raise RuntimeError("no code")


# --- the process around it ------------------------------------------------------------------------------


def _doing(action: Callable[[], Any]) -> Change:
    def change(env: Any, shown: Shown) -> Shown:
        action()
        return shown

    return change


def _chdir() -> None:
    os.chdir("..")


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _close_errors() -> None:
    os.close(2)
    sys.stderr = None  # type: ignore[assignment]


def _close_output() -> None:
    os.close(1)
    sys.stdout = None  # type: ignore[assignment]


def _shout() -> None:
    print("\x1b[2J" * 1000)


def _sleep() -> None:
    time.sleep(0.2)


def process_kinds() -> dict[str, Fault]:
    """Returns kinds that change the process they live in; each acts once."""
    ways: dict[str, Callable[[], Any]] = {
        "changes the folder": _chdir, "forks": _fork, "closes stderr": _close_errors, "closes stdout": _close_output,
        "shouts": _shout, "takes its time": _sleep, "makes NumPy raise": lambda: np.seterr(all="raise"),
        "makes warnings errors": lambda: warnings.simplefilter("error"), "forgets its surroundings": os.environ.clear,
        "closes what others write to": lambda: os.umask(0o777), "seeds NumPy": lambda: np.random.seed(0),  # noqa: NPY002
        "limits the recursion": lambda: sys.setrecursionlimit(150), "ignores Ctrl-C": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        "sets an alarm": lambda: (signal.signal(signal.SIGALRM, lambda *_: None), signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)),
        "stops the clock": lambda: setattr(time, "monotonic", lambda: 0.0), "warns": lambda: warnings.warn("a warning", stacklevel=1),
    }  # fmt: skip
    kinds = {name: Fault(_doing(action), is_once=True, is_honest=True) for name, action in ways.items()}
    kinds["hangs"] = Fault(_doing(lambda: time.sleep(3600)), is_once=True, options={"step_timeout": 1.0})
    kinds["hangs in reset"] = Fault(
        reset=_doing(lambda: time.sleep(3600)), is_once=True, first=0, options={"step_timeout": 1.0}
    )
    kinds["is another each time"] = Fault(
        reset=lambda env, shown: (int.from_bytes(os.urandom(1)) % NUM_STATES, {})
    )
    kinds["Ctrl-C"] = Fault(
        _doing(lambda: signal.raise_signal(signal.SIGINT)), is_once=True, is_interrupt=True, can_resume=True
    )
    return kinds


KINDS: dict[str, Fault] = {
    **value_kinds(), **shape_kinds(), **exception_kinds(), **space_kinds(), **process_kinds(),
}  # fmt: skip


def fault_of(name: str, rng: Rng) -> Fault:
    """Returns a kind that begins at a random step."""
    fault = KINDS[name]
    if fault.first == 0:
        return fault
    return dataclasses.replace(fault, first=int(rng.choice([1, 2, 5, 16, 17, 33, 50])))
