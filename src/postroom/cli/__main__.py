"""``python -m postroom.cli``: the command, where the script of that name is not installed."""

from postroom.cli.main import main

if __name__ == "__main__":
    main(prog_name="postroom")
