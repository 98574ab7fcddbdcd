"""Mutation testing of the numerical core: change one thing in the source, and see whether a test notices.

A mutant is the source with one small mistake: another operator, a constant off by one, a statement left out.
It is killed when a test fails, ends in an error or runs far longer than it should; otherwise it survives, and
a survivor is a hole in the tests or a change that makes no difference, which `arguments.json` says of each.

The usual tools do not fit. They call the mutated function through a stub that picks the variant, which a
compiled function cannot be called through, so everything under a decorator is left out: every loop that
Numba compiles, every property. Here the code of a function is exchanged in the running program, in a process
of its own that is forked for each mutant.

    python -m tools.mutation --sample 800 --seed 1  draws mutants at random, the same share of every file's
    python -m tools.mutation --again --budget 60    gives the survivors' tests more time
    python -m tools.mutation --page                 writes README.md again from the results

What was run is remembered in out/mutation, so that an interrupted run goes on where it was. `mutants` makes
them, `grafting` puts one into the running program, `running` finds out which tests go through its line and
runs those, fastest first, and `page` writes what came out. What this does not know: mistakes in two places at
once, and wrong words.
"""
