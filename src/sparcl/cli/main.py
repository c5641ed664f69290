"""The entry point of the `sparcl` command: turns every expected end into one line and an exit code."""

import io
import os
import sys


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what it has no letters for is written as \\xfc, and stops nothing
            stream.reconfigure(errors="backslashreplace")
    try:
        # Imported here, so that Ctrl-C while the program loads is as quiet as later.
        from sparcl.cli.advice import advised
        from sparcl.errors import SparclError

        try:
            if sys.argv[1:2] == ["predict"]:  # in a hurry: without what the other commands load
                from sparcl.cli.predict import predict as start
            else:
                from sparcl.cli.app import app as start

            choose_instruction_set()
            try:
                start()
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # here, where a full disk is still noticed
        except SparclError as error:
            fail(advised(error))
        except RecursionError:
            fail("A file that was to be read is nested too deeply: it is damaged, or made to do harm.")
        except MemoryError:
            fail("There is not enough memory for this. Choose a smaller network, batch or buffer.")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone, which is no error; nothing more can be written.
        _close_output()
        sys.exit(0)
    except OSError as error:
        _close_output()
        fail(f"Something could not be read or written: {error.strerror or error}. What was saved before is kept.")


def _close_output() -> None:
    """So that Python does not try again when it ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
