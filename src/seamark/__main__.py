"""`python -m seamark` is the command `seamark`."""

from seamark.cli import main

main()
