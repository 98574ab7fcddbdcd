"""A real kernel executes cells: results are shown as cards, long calls with a bar that is gone at the end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from read_pages import Seen

from patience import PATIENCE

pytestmark = [
    pytest.mark.thorough,  # starts a kernel
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Jupyter's own packages
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
CELLS = (
    "import rhocover as rc\nriver = rc.envs.river_swim()\nriver",
    "best = rc.plan(river, 2.0)\nbest",
    "run = rc.explore(river, 2.0, 1000)\nrun",
    "rc.audit(([0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 1, 1], [False] * 4))",
    "run.plot('ratio')",
    "run.to_pandas().head(2)",
    "import rhocover.progress as bars\nbars.PATIENCE = bars.REFRESH = 0.0\nrc.explore(river, 2.0, 500).num_steps",
    "import os\nos.environ['RHOCOVER_PROGRESS'] = '0'\nrc.explore(river, 2.0, 500).num_steps",
)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Returns the outputs of each cell of a notebook that was executed."""
    import nbformat
    from nbclient import NotebookClient

    if sys.platform == "win32":
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(code) for code in CELLS]
    book = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(book, timeout=PATIENCE, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in book.cells], folder


def shown(outputs) -> dict[str, str]:
    (output,) = (output for output in outputs if output.output_type == "execute_result")
    return output.data


@pytest.mark.parametrize("cell", range(4), ids=["model", "plan", "run", "audit"])
def test_a_result_at_the_end_of_a_cell_is_its_card(executed, cell):
    data = shown(executed[0][cell])
    assert data["text/html"].startswith('<div class="rhocover-card">')
    assert Seen(data["text/html"]).all("img")
    assert data["text/plain"]


def test_a_figure_at_the_end_of_a_cell_is_a_picture(executed):
    assert "image/png" in shown(executed[0][4])


def test_a_data_frame_is_shown_as_one(executed):
    assert "occupancy" in shown(executed[0][5])["text/html"]


def test_a_bar_is_empty_at_the_end_and_nothing_else_is_written(executed):
    bar, value = executed[0][6]
    assert bar.output_type == "display_data"
    assert bar.data == {"text/html": "", "text/plain": ""}
    assert value.data["text/plain"] == "500"


def test_the_switch_works_in_a_notebook(executed):
    (value,) = executed[0][7]
    assert value.data["text/plain"] == "500"


def test_nothing_is_left_in_the_folder(executed):
    assert list(Path(executed[1]).iterdir()) == []
