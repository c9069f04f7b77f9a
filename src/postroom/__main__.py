"""The command as a file, as ``spark-submit`` wants it: the folder of `postroom.cli` has modules named as some
of Python's own (queue, token), and can't be a script's."""

from postroom.cli.main import main

if __name__ == "__main__":
    main(prog_name="postroom")
