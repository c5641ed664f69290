"""The entry point of the `sparcl` command: turns every expected end into one line and an exit code."""

import os
import sys


def main() -> None:
    try:
        # Imported here, so that Ctrl-C while the program loads is as quiet as later.
        from sparcl.errors import SparclError

        try:
            if sys.argv[1:2] == ["predict"]:  # in a hurry: without what the other commands load
                from sparcl.cli.predict import predict as start
            else:
                from sparcl.cli.app import app as start

            choose_instruction_set()
            start()
        except SparclError as error:
            fail(str(error))
        except MemoryError:
            fail("There is not enough memory for this. Choose a smaller network, batch or buffer.")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone, which is no error; nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def choose_instruction_set() -> None:
    """The engine chooses when it is first asked; a wish that it cannot fulfil is better said at once."""
    from sparcl import _engine
    from sparcl.errors import SparclError

    try:
        _engine.instruction_set()
    except RuntimeError as error:
        raise SparclError(f"{error}.") from error


def fail(message: str) -> None:
    print(f"sparcl: {message}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
