"""`python -m mooring.cli`: the `mooring` command, run with a given interpreter."""

from mooring.cli.main import entry

if __name__ == "__main__":
    entry(prog_name="mooring")
