"""`python -m attile` is the command line program."""

from .command import main

main()
