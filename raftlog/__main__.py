"""`python -m raftlog` is the command `raftlog`."""

from raftlog.cli.main import main

if __name__ == "__main__":
    main()
