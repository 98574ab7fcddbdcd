"""Wrong uses of every command, as newcomers make them: each error gives advice, and the advice works.

A line is run, must be refused with exit code 2 and one line of text, and then the advice in that text is
followed to the letter (`advice.followed`). The line that comes of it must succeed. So there are no circles: no
advice that is refused in turn, and no option that another command has. `+`, `car` and `lake` stand for the
first lines of `BASES`. A line that acts for a long time is given fewer steps, which no message is about.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import typer.main

import rhocover as rc
from advice import followed
from rhocover.cli import demo, outputs
from rhocover.cli.app import app
from tiers import tiered

collecting = sys.modules[rc.collect.__module__]  # `rhocover.collecting.collect` is the function
BASES = {
    "plan": {"+": "plan river_swim"},
    "explore": {
        "+": "explore river_swim --steps 40",
        "car": "explore MountainCar-v0 --steps 40 --model learned",
        "lake": "explore FrozenLake-v1 --steps 40",
    },
    "collect": {
        "+": "collect FrozenLake-v1 --steps 40 --out new",
        "car": "collect MountainCar-v0 --steps 40 --out new --model learned",
    },
    "compare": {
        "+": "compare river_swim --steps 30 --seeds 1 --workers 1",
        "car": "compare MountainCar-v0 --states bins:4 --steps 30 --seeds 1 --workers 1",
    },
    "audit": {"+": "audit steps.csv"},
    "top-up": {
        "+": "top-up steps.csv --steps 20",
        "lake": "top-up data/lake --steps 20 --env FrozenLake-v1",
    },
    "budget": {"+": "budget river_swim --visits 5"},
    "resume": {"+": "resume run"},
    "export": {"+": "export data/lake --minari lake/covered-v0"},
    "reproduce": {"+": "reproduce reference-values"},
}  # fmt: skip
WRONG = {
    "plan": """
        plan
        plan river_swimm
        plan RiverSwim
        plan FrozenLake
        plan FrozenLak-v1
        plan MountainCar-v0
        plan Pendulum-v1
        plan Taxi-v3
        plan Blackjack-v1
        plan missing.safetensors
        plan Pp.npy
        plan missing.npy
        plan notes.txt
        + 2
        + --rho
        + --rho x
        + --rho -1
        + --rho nan
        + --rho 2 --rho 2
        + --rhos 2
        + --order 2
        + --weights uniform
        + --mu unifrom
        + --mu transition-std
        + --mu random
        + --mu random:x
        + --mu codes:weight
        + --mu kodes:weigh
        + --mu mu1.npy
        + --mu missing.npy
        + --mu small.npy
        + --mu negative.npy
        + --set states=3
        + --set num_states
        + --set num_states=x
        + --set num_states=1
        + --set num_states=5 --set num_states=6
        plan model.safetensors --set num_states=5
        + --discount 1
        + --gamma 0.9
        + --discount 0.9 --horizon 5
        + --horizon 3
        + --restrict --horizon 0
        + --restrict --horizon 2.5
        + --start 2
        + --discount 0.9 --start 6
        + --eta 0.3
        + --eta -1
        + --method simplex
        + --method leximin
        + --rho inf --method leximin --eta 0.001
        + --tol 0
        + --max-steps x
        + --time-limit 0
        + --steps 100
        + --model learned
        + --seed 1
        + --states bins:3
        + --num-envs 2
        + --json=1
        + --out page.html
        + --report page.html
        + --report full
        + --output results
        plan CliffWalking-v1 --set slippery=true
        plan FrozenLake-v1 --set map_name=9x9
        plan P.npy --set num_states=3
        + --rho 0 --mu transition_std
        plan nomodule:FrozenLake-v1
    """,
    "explore": """
        explore
        explore river_swimm --steps 40
        explore FrozenLake --steps 40
        explore FrozenLak-v1 --steps 40
        explore MountainCar-v0 --steps 40
        explore MountainCar-v0 --steps 40 --model learned
        explore CartPole-v1 --steps 40 --model learned
        explore CartPole-v1 --steps 40 --model learned --states bins:4
        explore Pendulum-v1 --steps 40 --model learned --states bins:4
        explore Blackjack-v1 --steps 40 --model learned
        car --states 8
        car --states bins
        car --states bins:x
        car --states bins:0
        car --states bins:4,4,4
        car --states bins:4@1:0
        car --states codes:cells
        car --states codes:CELLS
        car --states bins:4 --actions 3
        car --states bins:4 --actions x
        car --states bins:4 --level 3
        car --states bins:4 --read ram
        car --states bins:4 --repeat 0
        car --states bins:4 --step-timeout 0
        car --states bins:4 --explorer cov_game
        car --states bins:4 --until-gap 0.1
        explore MountainCar-v0 --steps 40 --states bins:4
        lake --states bins:4 --model learned
        lake --num-envs 2
        lake --out new
        lake --horizon 5
        lake --set map=8x8
        lake --set map_name
        lake --set is_slippery=true --set is_slippery=false
        lake --mu random:3
        explore CliffWalking-v1 --steps 40 --mu transition_std
        explore river_swim --steps 10k
        explore river_swim --steps 0
        explore river_swim --steps 2.5
        explore river_swim --num-steps 40
        + --chains 2
        + --num-envs 0
        explore river_swim --steps 41 --num-envs 2
        + --rho -1
        + --rho two
        + --explorer feedbak
        + --explorer rf_express
        + --model lerned
        + --model from_scratch --explorer maxent
        + --schedule quadratic:5
        + --explorer algorithm1 --schedule quadrat:5
        explore river_swim --steps 5 --explorer algorithm1
        + --states bins:4
        + --actions 3
        + --held-out bins:4
        + --seed -1
        + --start 9
        + --until-visits 5 --until-gap 0.1
        + --until-visits 0
        + --model from_scratch --until-gap 0.1
        + --discount 0.9 --horizon 5
        + --mu model_error --model learned --horizon 8
        + --out run
        + --out full --force
        + --out notes.txt
        + --max-episode-steps 5
        explore missing.safetensors --steps 40
        explore river_swim 2 --steps 40
        explore nomodule:FrozenLake-v1 --steps 40
    """,
    "collect": """
        collect --steps 40 --out new
        collect river_swim --steps 40 --out new
        collect FrozenLak-v1 --steps 40 --out new
        collect nomodule:FrozenLake-v1 --steps 40 --out new
        collect MountainCar-v0 --steps 40 --out new
        collect MountainCar-v0 --steps 40 --out new --model learned
        collect MountainCar-v0 --steps 40 --out new --states bins:4
        collect CartPole-v1 --steps 40 --out new --model learned --states bins:4
        collect Pendulum-v1 --steps 40 --out new --model learned --states bins:4
        collect Blackjack-v1 --steps 40 --out new --model learned
        car --states 8
        car --states bins:x
        car --states codes:cells
        car --states kodes:cell
        car --states bins:4 --actions 3
        car --states bins:4 --repeat 0
        car --states bins:4 --level 1
        car --states bins:4 --mu mu.npy
        + --num-envs 2
        + --num-envs 0
        + --model learned --chains 2
        + --step-timeout -1
        collect FrozenLake-v1 --steps 0 --out new
        collect FrozenLake-v1 --steps 1k --out new
        collect FrozenLake-v1 --num-steps 40 --out new
        collect FrozenLake-v1 --steps 40 --output new
        collect FrozenLake-v1 --steps 40 --out data/lake
        collect FrozenLake-v1 --steps 40 --out full
        collect FrozenLake-v1 --steps 40 --out full --force
        collect FrozenLake-v1 --steps 40 --out notes.txt
        + --resume
        collect FrozenLake-v1 --steps 60 --out data/lake --resume
        + --id "not an id"
        + --id lake
        + --rho -2
        + --mu unifrom
        + --mu small.npy
        + --mu random:1
        + --explorer feedbak
        + --explorer rf_express
        + --schedule doubling:5
        + --set map=8x8
        + --set map_name
        + --seed x
        + --until-visits 0
        collect FrozenLake-v1 2 --steps 40 --out new
        collect CliffWalking-v1 --steps 40 --out new --mu transition_std
    """,
    "compare": """
        compare
        compare river_swimm --steps 30 --seeds 1 --workers 1
        compare FrozenLake --steps 30 --seeds 1 --workers 1
        compare MountainCar-v0 --steps 30 --seeds 1 --workers 1
        compare Pendulum-v1 --states bins:4 --steps 30 --seeds 1 --workers 1
        compare Blackjack-v1 --steps 30 --seeds 1 --workers 1
        compare MountainCar-v0 river_swim --steps 30 --seeds 1 --workers 1
        + river_swim
        compare missing.safetensors --steps 30 --seeds 1 --workers 1
        + wheel --set num_states=5
        + --set states=5
        + --states bins:4
        + --held-out bins:4
        + --explorers tracking
        + --explorer trakcing
        + --explorer tracking --explorer tracking
        + --explorer rf_express
        + --explorer tracking --schedule doubling:5
        + --explorer counts
        compare river_swim --steps 30 --seeds 0 --workers 1
        compare river_swim --steps 30 --seed 3 --seeds 1 --workers 1
        compare river_swim --steps 30 --explorer tracking --seeds x --workers 1
        compare river_swim --explorer tracking --steps 0 --seeds 1 --workers 1
        compare river_swim --steps 5 --seeds 1 --workers 1
        compare river_swim --n-steps 30 --seeds 1 --workers 1
        compare river_swim --steps 30 --seeds 1 --workers 0
        compare river_swim --steps 30 --seeds 1 --jobs 1
        + --rho -1
        + --rho 2 --rho 2
        + --rho x
        + --mu unifrom
        + --mu small.npy
        + --mu codes:wiegh
        + --model lerned
        + --chains 2
        compare river_swim --steps 31 --seeds 1 --workers 1 --num-envs 2
        + --start 9
        + --discount 2
        + --horizon 5
        + --discount 0.9 --horizon 8
        + --out full
        + --out full --force
        + --out runs
        + --shard 0/64 --out new
        + --shard 65/64 --out new
        + --shard 3 --out new
        + --shard 3/8
        + --shard 3/8 --out runs
        + --shard 3/8 --out new --force
        + --shard 3/8 --out new --report new.html
        + --report new.txt
        compare --redraw nowhere
        compare --redraw runs --shard 3/8
        compare --redraw run
        compare river_swim --redraw runs
        compare --redraw runs --force
        car --model known
        car --rho 1 --rho 2
        car --num-envs 2
        car --report new.html
        car --explorer cout
        car --mu mu.npy
        car --held-out bins:x
        compare MountainCar-v0 --states codes:cel --steps 30 --seeds 1 --workers 1
        + --until-visits 3
        compare river_swim --explorer tracking --steps 30k --seeds 1 --workers 1
    """,
    "audit": """
        audit
        audit missing.csv
        audit step.csv
        audit missing.npz
        audit missing/data-v0
        audit nothing
        audit run
        audit notes.txt
        audit model.safetensors
        + FrozenLake-v1
        + --rho -1
        + --rho x
        + --order 2
        + --mu unifrom
        + --mu random:1
        + --mu small.csv
        + --mu codes:wiegh
        + --weights uniform
        + --env MountainCar-v0
        audit data/lake --env FrozenLak-v1
        + --env river_swim
        + --env CliffWalking-v1
        audit data/lake --env Taxi-v4
        + --set is_slippery=false
        audit data/lake --env FrozenLake-v1 --set map=4x4
        + --model learned
        + --certificate --no-best
        + --delta 0
        + --delta x
        + --states bins:2
        + --states 8
        + --states quantiles
        audit car --states bins:4,4,4
        audit car --states codes:cel
        audit car --states kodes:cell
        audit car --held-out bins
        + --held-out bins:3
        + --actions x
        + --num-states 1
        + --num-states x
        + --num-actions 1
        + --num-action 2
        + --require-worst-ratio 0.5
        + --require-worst-ratio x
        + --worst-ratio 4
        + --complete
        + --thin -1
        + --thin x
        + --json=yes
        + --out notes.txt
        + --output new
        + --report new.pdf
        + --report page.html
        + --steps 5
        + --seed 1
        + --rho
        audit car --env MountainCar-v0
        + --explorer tracking
    """,
    "top-up": """
        top-up --steps 20
        top-up steps.csv
        top-up missing.csv --steps 20
        top-up step.csv --steps 20
        top-up nothing --steps 20
        top-up notes.txt --steps 20
        top-up run --steps 20
        top-up steps.csv --steps 0
        top-up steps.csv --steps 1k
        top-up steps.csv --num-steps 20
        + --rho -1
        + --rho x
        + --mu unifrom
        + --mu small1.npy
        + --mu codes:wiegh
        + --env MountainCar-v0
        top-up data/lake --steps 20 --env FrozenLak-v1
        + --env river_swim
        + --env CliffWalking-v1
        + --set is_slippery=false
        + --max-episode-steps 5
        lake --set map=4x4
        lake --max-episode-steps 0
        + --states 8
        + --states bins:2
        + --states quantile:4
        top-up car --steps 20 --states codes:cel
        + --actions x
        + --num-states 1
        + --num-actions 1
        + --num-actions x
        + --out new
        lake --out data/lake
        lake --out full
        lake --out notes.txt
        lake --out new --resume
        lake --out new --model lerned
        lake --out new --id lake
        lake --out new --step-timeout 0
        lake --out new --level 2
        lake --repeat 2
        top-up car --steps 20 --env MountainCar-v0
        lake --resume
        top-up data/lake --steps 20 --resume
        top-up data/lake --steps 20 --id lake-v0
        + --policy policy.txt
        + --thin -1
        + --report new.pdf
        + --explorer tracking
        + --horizon 5
        + --until-visits 5
        + --num-envs 2
        top-up data/lake --env FrozenLake-v1 --steps 20 --output x
        + --delta 0.1
        + --certificate
        top-up steps.csv --steps
    """,
    "budget": """
        budget
        budget river_swim
        budget river_swimm --visits 5
        budget MountainCar-v0 --visits 5
        budget river_swim --visits 0
        budget river_swim --visits x
        budget river_swim --visits 2.5
        + --model-error 0.1
        budget river_swim --model-error 0
        budget river_swim --error 0.1
        + --delta 2
        + --start 9
        + --rho 2
        + --mu uniform
        + --set states=3
        budget river_swim 5 --visits 5
        budget missing.npy --visits 5
        budget RiverSwim --visits 5
        budget FrozenLak-v1 --visits 5
        budget Pendulum-v1 --visits 5
        budget Blackjack-v1 --visits 5
        budget notes.txt --visits 5
        budget missing.safetensors --visits 5
        budget nomodule:FrozenLake-v1 --visits 5
        budget Pp.npy --visits 5
        budget model.safetensors --visits 5 --set num_states=5
        budget P.npy --visits 5 --set num_states=3
        budget FrozenLake-v1 --visits 5 --set map_name=9x9
        + --set num_states
        + --set num_states=x
        + --set num_states=1
        + --set num_states=5 --set num_states=6
        budget river_swim --model-error x
        budget river_swim --model-error -1
        budget river_swim --model-error
        budget river_swim --visits
        budget river_swim --visit 5
        budget river_swim --num-visits 5
        + --delta x
        + --delta 0
        + --json=1
        + --restrict=1
        + --start x
        + --start -1
        + --out new
        + --seed 1
        + --steps 100
    """,
    "envs": """
        envs river_swimm
        envs FrozenLake-v1
        envs river_swim wheel
        envs --jsno
        envs --json=1
        envs --set num_states=4
        envs --rho 2
        envs river_swim --out new
        envs rivers
        envs RiverSwim
        envs river-swim
        envs riverswim
        envs rivr_swim
        envs whel
        envs six-arms
        envs SixArms
        envs gridworld
        envs grid_wrld
        envs four-rooms
        envs FourRooms
        envs n-room
        envs deepsea
        envs deep_see
        envs garnett
        envs Garnet
        envs double-chain
        envs doublechain
        envs noisy_river
        envs forked_river
        envs MountainCar-v0
        envs model.safetensors
        envs missing
        envs 3
        envs wheel garnet
        envs wheel --rho 2
        envs wheel --jsn
        envs wheel --set num_states=4
        envs --list
        envs --all
        envs --names
        envs --out new
        envs --steps 40
    """,
    "explorers": """
        explorers feedbak
        explorers feedback tracking
        explorers --jsn
        explorers ppo_rnd
        explorers --rho 2
        explorers Feedback
        explorers --json=1
        explorers max-ent
        explorers algorithm2
        explorers --kind own
        explorers feed-back
        explorers traking
        explorers Tracking
        explorers stationry
        explorers algorithm
        explorers algorithm1-short
        explorers activeexploration
        explorers covgame
        explorers cov-game
        explorers ent-game
        explorers fw-modest
        explorers modest
        explorers generative
        explorers renyi
        explorers max-renyi
        explorers maxentropy
        explorers reward-free
        explorers rf-express
        explorers rf-ucrl
        explorers ucrl
        explorers smm
        explorers random
        explorers uniform-random
        explorers weighted
        explorers river_swim
        explorers 1
        explorers feedback --jsn
        explorers feedback --rho 2
        explorers --all
        explorers --list
        explorers --out new
        explorers --steps 40
    """,
    "resume": """
        resume
        resume nowhere
        resume full
        resume data/lake
        resume runs
        + --delta 0
        + --delta x
        + --steps 20
        + --seed 1
        + --report new.md
        + --report page.html
        + 2
        resume run2
        resume Run
        resume notes.txt
        resume model.safetensors
        resume steps.csv
        resume car
        resume data
        resume ./nowhere
        resume missing/run
        resume river_swim
        resume FrozenLake-v1
        + run
        + --delta 2
        + --delta nan
        + --delta
        + --json=1
        + --force=1
        + --report
        + --report new.pdf
        + --report notes.txt
        + --out new
        + --output new
        + --rho 2
        + --mu uniform
        + --explorer tracking
        + --model learned
        + --num-steps 20
        + --until-visits 5
        + --workers 1
        + --start 2
        + --folder runs
    """,
    "doctor": """
        doctor river_swim
        doctor --no-self-tests
        doctor --json=1
        doctor --quick
        doctor --verbose
        doctor --fix
        doctor --rho 2
        doctor --out new
        doctor --jason
        doctor --no-selftest
        doctor --no-self-test=yes
        doctor --self-tests --no-self-test
        doctor --no-self-test all
        doctor --no-self-test --json=yes
        doctor --no-self-test --jsno
        doctor --no-self-test --out new
        doctor --no-self-test --all
        doctor --no-self-test --full
        doctor --no-self-test --packages
        doctor --no-self-test numpy
    """,
    "reproduce": """
        reproduce
        reproduce reference-value
        reproduce reference-valuess
        + --steps 0
        + --seeds 0
        + --workers x
        + --workers 0
        + --out notes.txt
        + --output new
        + --rho 2
        + --json=1
        + peers-worst-ratio
        reproduce reference
        reproduce reference_values
        reproduce referencevalues
        reproduce Reference-Values
        reproduce reference-values-2
        reproduce values
        + --steps 100
        + --seeds 2
        + --seed 1
        + --workers -1
        + --workers
        + --jobs 2
        + --jsn
        + --out page.html
        + --outdir new
        + --force=1
        + --mu uniform
        + --explorer tracking
        + --report new.html
        + --delta 0.1
        + --name reference-values
        + --all
    """,
    "export": """
        export nothing --minari lake/covered-v0
        export data/lake --minari covered
        export data/lake --minari ../covered-v0
        + --out new
        + --report new.html
        + --resume
        + --json=1
        + --force=1
        + --forse
    """,
    "rhocover": """
        colect FrozenLake-v1 --steps 40 --out new
        topup steps.csv --steps 10
        plann river_swim
        list
        top_up steps.csv --steps 10
        plna river_swim
        paln river_swim
        Plan river_swim
        plans river_swim
        planner river_swim
        env
        environments
        evns
        models
        explorer
        explores
        explorrers
        explor river_swim --steps 40
        explroe river_swim --steps 40
        Explore river_swim --steps 40
        run river_swim --steps 40
        collct FrozenLake-v1 --steps 40 --out new
        collects FrozenLake-v1 --steps 40 --out new
        compar river_swim --steps 30 --seeds 1 --workers 1
        comparison river_swim --steps 30 --seeds 1 --workers 1
        audti steps.csv
        audits steps.csv
        budgets river_swim --visits 5
        bugdet river_swim --visits 5
        resum run
        resumes run
        doctr --no-self-test
        doctors --no-self-test
        check --no-self-test
        reproduc reference-values
        help
        help plan
        -h
        --hlp
        --versoin
        -v
        --rho 2 plan river_swim
        --rho 2 envs
        --seed 1 explorers
    """,
    "demo": """
        demo river_swim
        demo --out notes.txt
        demo --output new
        demo --force=1
        demo --json
        demo --rho 2
        demo --out
        demo --steps 5
        demo --folder new
        demo --seed 1
        demo --out new --steps 40
        demo --out new river_swim
        demo --out page.html
        demo --out new --force=yes
        demo --out new --forse
    """,
}
FOREIGN = """
    --rho 2 | --mu uniform | --set num_states=5 | --steps 40 | --seeds 2 | --seed 1 | --explorer tracking | --actions 3
    --states bins:4 | --held-out bins:4 | --model learned | --discount 0.9 | --horizon 5 | --start 1 | --eta 0.01
    --method leximin | --tol 1e-6 | --max-steps 9 | --time-limit 9 | --visits 5 | --model-error 0.1 | --delta 0.1
    --num-envs 2 | --until-visits 5 | --until-gap 0.1 | --env FrozenLake-v1 | --id lake-v0 | --thin 3 | --policy p.csv
    --redraw runs | --num-states 4 | --num-actions 2 | --column s=s | --level 3 | --repeat 2 | --step-timeout 9
"""  # options that other commands have, with values that they would take there
FOREIGN_TO = {"doctor": "doctor --no-self-test", "demo": "demo --out new", "envs": "envs", "explorers": "explorers",
              "reproduce": "reproduce reference-values", "resume": "resume run",
              "export": "export data/lake --minari lake/covered-v0"}  # fmt: skip
SHORTER = {"explore": "--steps 40", "collect": "--steps 40", "compare": "--steps 30 --seeds 1 --workers 1",
           "doctor": "--no-self-test"}  # fmt: skip
CODES = """
import numpy as np

CELLS = 3


def cell(observation):
    return round(float(observation[0]), 1)


def weigh(seen):
    return np.ones(seen.num_pairs)
"""


def lines(command: str) -> list[str]:
    """Returns the wrong uses of a command, in full."""
    bases, found = BASES.get(command, {}), []
    for line in WRONG[command].strip().splitlines():
        first, _, rest = line.strip().partition(" ")
        found.append(f"{bases.get(first, first)} {rest}".strip())
    base = FOREIGN_TO.get(command)
    others = [option.strip() for option in FOREIGN.replace("\n", "|").split("|") if base and option.strip()]
    return list(dict.fromkeys([*found, *(f"{base} {option}" for option in others)]))[: max(len(found), 45)]


def cases() -> list[str]:
    """Returns all wrong uses; the first of each command come first."""
    several = [lines(command) for command in WRONG]
    return [line for group in several for line in group[:1]] + [
        line for group in several for line in group[1:]
    ]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with models, weights, data sets, a run and a comparison, some of them not what they seem."""
    folder = tmp_path_factory.mktemp("prepared")
    before = os.getcwd()
    os.chdir(folder)
    try:
        _fill()
    finally:
        os.chdir(before)
    return folder


def _fill() -> None:
    mdp = rc.envs.river_swim()
    mdp.save("model.safetensors")
    np.save("P.npy", mdp.dense())
    np.save("mu.npy", np.ones((6, 2)))
    np.save("small.npy", np.ones((2, 2)))
    np.save("negative.npy", -np.ones((6, 2)))
    np.savetxt("small.csv", np.ones((5, 5)), delimiter=",")
    texts = {"notes.txt": "x", "page.html": "x", "codes.py": CODES, "steps.csv": STEPS}
    for name, text in texts.items():
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    os.makedirs("full")
    shutil.copy("notes.txt", "full/mine.txt")
    rc.explore(mdp, 2, 60, explorer="tracking", out="run")
    rc.compare(mdp, "tracking", num_steps=30, seeds=1, workers=1, out="runs")
    os.makedirs("data")
    rc.collect(gym.make("FrozenLake-v1"), 2, 60, out="data/lake")
    rc.collect(gym.make("MountainCar-v0"), 2, 60, out="car", model="learned", states=rc.Bins(4))


STEPS = "s,a,s_next,done\n0,0,1,False\n1,0,0,False\n0,1,1,False\n1,1,0,False\n"


@pytest.fixture
def undrawn(monkeypatch):
    """Nothing is drawn, and the demonstration has few orders and short runs: no message is about that."""
    write_all = outputs.write_all

    def write(out, files, *, force):
        quick = {name: Path.touch if name.endswith(".png") else files[name] for name in files}
        return write_all(out, quick, force=force)

    for module in (outputs, demo):
        monkeypatch.setattr(module, "write_all", write)
    monkeypatch.setattr(collecting, "page_of_collection", lambda _: None)
    monkeypatch.setattr(collecting, "write_page", lambda _, path, **__: path.touch())
    monkeypatch.setattr(demo, "letter", demo.river)
    monkeypatch.setattr(demo, "ORDERS", demo.TABLE)
    monkeypatch.setattr(demo, "NUM_STEPS", 100)
    monkeypatch.setattr(demo, "SEEDS", 1)


def shortened(line: str) -> str:
    """Returns a line that acts, with fewer steps if it does not say how many."""
    words = shlex.split(line)
    more = shlex.split(SHORTER.get(words[0], ""))
    is_given = any(word in words for word in (*more[:1], "--redraw", "--self-test"))
    return line if is_given else f"{line} {shlex.join(more)}".strip()


@pytest.mark.parametrize("line", tiered(cases(), short=len(WRONG)))
def test_the_advice_in_an_error_works(line, prepared, rhocover, tmp_path, undrawn):
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    found = rhocover(line)
    message = " ".join(found.err.split())
    assert found.code == 2, message
    assert message.startswith("error: ")
    assert "Traceback" not in message
    advised = shortened(followed(line, message))
    again = rhocover(advised)
    assert again.code == 0, f"{message}\n{advised}\n{again.err}"


def test_every_command_is_used_wrongly_in_many_ways():
    commands = set(typer.main.get_command(app).commands)
    assert set(WRONG) == commands | {"rhocover"}
    for command, uses in ((command, lines(command)) for command in WRONG):
        assert len(set(uses)) == len(uses)
        assert len(uses) >= 40, command
