"""`python -m mooring.cli`: run the `mooring` command with a given interpreter."""

from mooring.cli.main import main

if __name__ == "__main__":
    main(prog_name="mooring")
