"""Mutation testing of the numerical core: change one thing in the source, and see whether a test notices.

A mutant is the source with one small mistake: another operator, a constant off by one, a statement left out.
It is killed when a test fails, ends in an error or runs far longer than it should; otherwise it survives, and
a survivor is a hole in the tests or a change that makes no difference, which `arguments.json` says of each.

The usual tools do not fit. They call the mutated function through a stub that picks the variant, which a
compiled function cannot be called through, so everything under a decorator is left out: every loop that
Numba compiles, every property. Here mutants are files, imported in place of the original (`running`), one
process each, forked from one that has imported everything but this library.

    python -m mutation --sample 800 --seed 0      draws mutants at random, the same share of every file's
    python -m mutation --page                     writes docs/mutants.md again from the results

`mutants` makes them, `tests_of_lines` finds out which tests run through a line, `running` runs those, fastest
first, and `page` writes what came out. What this does not know: mistakes of two places at once, and texts.
"""
