"""Runs in environments: explore them, collect data sets, and top up existing data sets."""

from rhocover.collecting.collect import collect
from rhocover.collecting.datasheet import Collection
from rhocover.collecting.top_up import TopUp, top_up

__all__ = ["Collection", "TopUp", "collect", "top_up"]
