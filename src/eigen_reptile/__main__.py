"""`python -m eigen_reptile`, as torchrun starts it."""

from eigen_reptile.cli import main

if __name__ == "__main__":
    main()
