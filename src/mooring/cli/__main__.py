"""`python -m mooring.cli`: the `mooring` command, where only the interpreter is known."""

from mooring.cli.main import main

if __name__ == "__main__":
    main(prog_name="mooring")
