"""`python -m attile` runs the command line program."""

from .command import main

main()
