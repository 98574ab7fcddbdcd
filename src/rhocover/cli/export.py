"""`rhocover export`: a collection as a data set of another library."""

from __future__ import annotations

from rhocover.cli import options as o
from rhocover.cli.data_sets import explained
from rhocover.cli.output import print_json, print_message, print_note, progress
from rhocover.errors import calling
from rhocover.printing import count_of


def export(data: o.Collected, minari: o.MinariId, json: o.Json = False, force: o.ForceExport = False) -> None:
    """Writes a collection as a Minari data set, with its datasheet in the metadata.

    DIR is the folder of `rhocover collect --out DIR`. The data set goes to Minari's own folder:
    $MINARI_DATASETS_PATH, or ~/.minari/datasets. The collection stays as it is. Other tools (pandas, polars,
    DuckDB, Spark, Hugging Face) need no export: they read the Parquet files in DIR/parts.

    * `rhocover export data/lake --minari lake/covered-v0`
    * `rhocover export data/lake --minari lake/covered-v0 --force --json`
    """
    from rhocover._version import __version__
    from rhocover.datasets.minari.exporting import export_minari

    with progress(f"writing {minari}") as bar, explained([str(data)]), calling(dataset_id="minari"):
        found = export_minari(data, minari, overwrite=force, report=bar)
    place = str(found.storage.data_path.parent)
    if json:
        about = {
            "dataset_id": minari,
            "path": place,
            "episodes": found.total_episodes,
            "steps": found.total_steps,
        }
        print_json(
            {"rhocover": __version__, "parameters": {"data": str(data), "minari": minari}, "export": about}
        )
    else:
        steps = count_of(int(found.total_steps), "step", ",")
        print_note(f"{minari}: {steps} in {count_of(int(found.total_episodes), 'episode', ',')}")
    print_message(f"the data set is in {place}")
