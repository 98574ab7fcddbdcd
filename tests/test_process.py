"""A command ends with 130 at Ctrl-C whenever it comes, and needs no stream, no screen and no letter."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rhocover as rc
from patience import PATIENCE
from rhocover import progress
from rhocover.cli import main
from rhocover.cli.app import INTERRUPTED
from tiers import tiered

INSTANTS = 6  # of Ctrl-C while a command is loaded and run
SIGNAL_AT_AN_IMPORT = """
import os, signal, sys
from rhocover.cli import main
last, count = int(sys.argv[1]), 0
def listen(event, _):
    global count
    count += event == "import"
    if event == "import" and count == last:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(listen)
try:
    main(["plan", "river_swim", "--rho", "2"])
finally:
    print("imports:", count) if last == 0 else None
"""


def python(code: str, *args: object, **how) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, **how)


def shell(line: str, **how) -> subprocess.CompletedProcess[str]:
    """Runs a line of the shell in which `rhocover` is the command."""
    script = f'rhocover() {{ "{sys.executable}" -m rhocover "$@"; }}; {line}'
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE, **how)


# Ctrl-C.


@pytest.mark.thorough
def test_ctrl_c_at_any_moment_of_the_start_ends_with_130_and_one_word():
    """A signal at one of the imports, from the first that `main` asks for to the last of the command."""
    whole = python(SIGNAL_AT_AN_IMPORT, 0)
    number = int(re.search(r"imports: (\d+)", whole.stdout)[1])
    assert number > 500
    for last in {1, 2, 3, *range(5, number, number // INSTANTS)}:
        result = python(SIGNAL_AT_AN_IMPORT, last)
        assert (result.returncode, result.stderr) == (INTERRUPTED, "interrupted\n"), (last, result.stderr)


AFTERWARDS = "import atexit, os, signal, time\nfrom rhocover.cli import main, plan as command\n"
PRESS = "(os.kill(os.getpid(), signal.SIGINT), time.sleep(60))"


@pytest.mark.parametrize(
    "code",
    tiered(
        [
            f"import sys\natexit.register(lambda: {PRESS})\nsys.argv[1:] = ['--version']\nmain()",
            f"class Late:\n    def __del__(self):\n        {PRESS}\n"
            "command.make_plan = lambda *_, **__: (Late() and None, time.sleep(60))\n"
            "main(['plan', 'river_swim', '--rho', '2'])",
            "def fail(*_, **__):\n"
            f"    try:\n        {PRESS}\n"
            "    except BaseException:\n        raise ValueError('a package could not begin')\n"
            "command.make_plan = fail\n"
            "main(['plan', 'river_swim', '--rho', '2'])",
        ]
    ),
    ids=["when the command is done", "in a destructor, which cannot raise", "turned into another error"],
)
def test_ctrl_c_is_not_lost_in_foreign_code(code):
    result = python(AFTERWARDS + code)
    assert (result.returncode, result.stderr) == (INTERRUPTED, "interrupted\n")


@pytest.mark.thorough
def test_a_command_that_is_to_ignore_ctrl_c_does():
    code = (
        "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from rhocover.cli import main, plan as command\nmake_plan = command.make_plan\n"
        "press = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "command.make_plan = lambda *args, **given: (press(), make_plan(*args, **given))[1]\n"
        "main(['plan', 'river_swim', '--rho', '2'])"
    )
    result = python(code)
    assert (result.returncode, result.stderr) == (0, "")


def test_what_runs_before_ctrl_c_is_answered_loads_next_to_nothing():
    """Between the first line of the package and `main` nothing is imported but our own three files."""
    code = "import sys; before = set(sys.modules); from rhocover.cli import main; print(*set(sys.modules) - before)"
    names = set(python(code).stdout.split())
    assert names <= {"rhocover", "rhocover._version", "rhocover.cli", "__future__"}


# Streams.


class Bare:
    """A stream that can do one thing."""

    def write(self, text: str) -> int:
        return len(text)


class Gone(io.StringIO):
    """A terminal that was closed."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {"absent": lambda: None, "closed": closed, "bare": Bare, "gone": Gone}


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("kind", STREAMS)
def test_a_plan_and_a_run_need_no_stream(monkeypatch, name, kind):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, name, STREAMS[kind]())
    assert rc.plan(rc.envs.river_swim(), 2.0).divergence == pytest.approx(0.293000580)
    assert rc.explore(rc.envs.river_swim(), 2.0, 100, seed=0).num_steps == 100


@pytest.mark.parametrize(
    "line", ["plan river_swim --rho 2", "plan river_swim --rho 2 --json", "envs", "plan nowhere --rho 2"]
)
@pytest.mark.parametrize("kind", ["absent", "closed", "bare"])
def test_a_command_needs_no_stream(monkeypatch, kind, line):
    from rhocover.cli import app

    expected = 2 if "nowhere" in line else 0
    for name in ("stdout", "stderr"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, name, STREAMS[kind]())
            with pytest.raises(SystemExit) as end:
                app.main(line.split())
        assert end.value.code == expected


@pytest.mark.thorough
def test_what_the_caller_closed_is_not_where_files_are_opened(tmp_path):
    """Else the first file that is opened gets the number of stderr, and what is printed there."""
    look = (
        "from rhocover.cli import process; import os, sys; process._open_streams(); "
        "null = os.stat(os.devnull).st_rdev; "
        "sys.exit(0 if all(os.fstat(number).st_rdev == null for number in (0, 1, 2)) else 3)"
    )
    assert shell(f'"{sys.executable}" -c "{look}" <&- >&- 2>&-').returncode == 0
    result = shell(
        "rhocover plan river_swim --rho 2 --out found 2>&-; rhocover plan nowhere --rho 2 >&- 2>&-",
        cwd=tmp_path,
    )
    assert (result.returncode, result.stderr) == (2, "")
    assert json.loads((tmp_path / "found" / "plan.json").read_text())["plans"]


@pytest.mark.thorough
def test_a_disk_that_is_full_is_told_and_a_reader_that_left_is_not():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    full = shell("rhocover envs --json > /dev/full")
    assert (full.returncode, full.stderr) == (1, "error: [Errno 28] No space left on device\n")
    left = shell("{ rhocover envs --json; echo $? >&2; } | true")
    assert left.stderr in ("1\n", "0\n")  # 0 where the reader was slower


# Letters, screens and names.


@pytest.mark.parametrize(
    "setting",
    tiered([{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]),
)
def test_a_letter_that_the_terminal_lacks_is_replaced(setting):
    code = r"""
from rhocover.cli import output, process
process._prepare()
output.print_result("1 \xb1 2 \xb7 3", output.empty_table("\u221e"))
output.print_note("\u03b7")
output.print_message("\u03b7")
"""
    result = python(code, env=os.environ | setting)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("1 ? 2 ? 3")
    assert result.stdout.endswith("?\n")


@pytest.mark.thorough
def test_a_name_of_bytes_that_are_no_letters_is_written_and_shown(tmp_path):
    name = os.fsdecode(b"data-\xff.csv")
    try:
        (tmp_path / name).write_text(
            "state,action,next_state,done\n0,0,1,0\n1,0,0,0\n0,1,1,0\n1,1,0,0\n0,0,1,0\n"
        )
    except OSError:
        pytest.skip("this file system takes no such name")
    line = [sys.executable, "-m", "rhocover", "audit", name, "--report", "page.html", "--out", "found"]
    shown = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert shown.returncode == 0, shown.stderr
    assert r"data-\udcff.csv" in shown.stdout
    assert r"data-\udcff.csv" in (tmp_path / "page.html").read_text("utf-8")
    document = json.loads((tmp_path / "found" / "audit.json").read_text("utf-8"))
    assert document["parameters"]["data"].encode() == rb"data-\udcff.csv"


@pytest.mark.thorough
def test_a_screen_that_matplotlib_does_not_know_is_not_needed(tmp_path):
    line = "rhocover explore river_swim --rho 2 --steps 200 --out found"
    result = shell(line, cwd=tmp_path, env=os.environ | {"MPLBACKEND": "nonsense"})
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert any((tmp_path / "found").glob("*.png"))


@pytest.mark.thorough
def test_a_warning_is_one_line_and_a_defect_commands_no_terminal():
    code = (
        "import warnings\nfrom rhocover.cli import main, plan as command\n"
        "def plan(*_, **__):\n"
        "    warnings.warn('a name\\x1b[2J\\nof two lines')\n"
        "    raise ZeroDivisionError('at \\x1b[2J')\n"
        "command.make_plan = plan\nmain(['plan', 'river_swim', '--rho', '2'])"
    )
    result = python(code)
    first, rest = result.stderr.split("\n", 1)
    assert first == r"warning: a name\x1b[2J of two lines"
    assert rest.startswith("Traceback")
    assert rest.endswith("ZeroDivisionError: at \\x1b[2J\n")
    assert result.returncode == 1


def test_a_program_that_runs_a_command_has_its_own_answer_to_ctrl_c_back():
    """The mutant leaves the one that ends the process on the spot."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before
