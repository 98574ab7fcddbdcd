"""Results of every kind and their pages, made once for each file of tests."""

from __future__ import annotations

import numpy as np
import pytest
from read_pages import EVIL, evil_model, walked

import rhocover as rc
from rhocover.datasets.audit import audit
from rhocover.report.pages.audit import page_of_audit
from rhocover.report.pages.comparison import page_of_comparison
from rhocover.report.pages.plan import page_of_plans
from rhocover.report.pages.rendering import page_html
from rhocover.report.pages.run import page_of_run


@pytest.fixture(scope="module")
def river():
    return rc.envs.river_swim()


@pytest.fixture(scope="module")
def run(river):
    return rc.explore(river, 2.0, 3000)


@pytest.fixture(scope="module")
def comparison():
    return rc.compare(
        "river_swim", ["feedback", "algorithm1"], rho=[2, np.inf], num_steps=1000, seeds=3, workers=1
    )


@pytest.fixture(scope="module")
def pages(river, run, comparison):
    learned = rc.explore(river, 2.0, 2000, model="learned")
    return {
        "plan": page_of_plans([rc.plan(river, 2.0)]),
        "plans": page_of_plans([rc.plan(river, rho) for rho in (np.inf, 0.0, 2.0)], command="rhocover plan"),
        "run": page_of_run(run, command="rhocover explore river_swim --rho 2 --steps 3000"),
        "incomplete": page_of_run(rc.explore(rc.envs.four_rooms(), 2.0, 100)),
        "learned": page_of_run(learned, certificate=learned.certificate(), evidence=learned.evidence()),
        "comparison": page_of_comparison(comparison),
        "audit": page_of_audit(audit(walked(river, 2000))),
        "evil": page_of_run(rc.explore(evil_model(), 2.0, 500), command=f"rhocover {EVIL}"),
    }


@pytest.fixture(scope="module")
def texts(pages):
    return {name: page_html(page) for name, page in pages.items()}


@pytest.fixture(scope="module")
def files(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in texts}
