"""`python -m rhocover` is the command `rhocover`."""

if __name__ == "__main__":
    from rhocover.cli import main

    main()
