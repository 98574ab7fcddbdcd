"""`python -m rhocover` is the command `rhocover`."""

from rhocover.cli import main

if __name__ == "__main__":
    main()
