"""How much room the package takes on a device: a wheel and what it needs, installed into a fresh environment.

    python -m benchmarks.installed_size
    python -m benchmarks.installed_size --wheel dist/sparcl_edge-0.1.0-cp311-cp311-linux_x86_64.whl

Counted are the bytes of all files of each package, without compiled bytecode (`pip install --no-compile`), and with.
The environment's own pip is no part of it.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.publish import parsed, parser, publish

ROOT = Path(__file__).parents[1]


def build_wheel(into: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(into), str(ROOT)]
    subprocess.run(command, check=True)
    return next(into.glob("*.whl"))


def install(wheel: Path, environment: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*command, str(wheel)], check=True)
    subprocess.run([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"], check=True)


def sizes(packages: Path) -> dict[str, int]:
    """Bytes by what lies in site-packages; a package's libraries and metadata count as the package."""
    found: dict[str, int] = {}
    for path in packages.rglob("*"):
        if path.is_file():
            name = path.relative_to(packages).parts[0]
            name = name.split("-")[0].split(".")[0].removesuffix("_edge").lower()
            name = {"pil": "pillow"}.get(name, name)
            found[name] = found.get(name, 0) + path.stat().st_size
    return found


def main() -> None:
    arguments = parser(__doc__, "installed-size")
    arguments.add_argument("--wheel", type=Path, help="a wheel that is built already")
    options = parsed(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = options.wheel or build_wheel(folder / "wheel")
        environment = folder / "environment"
        install(wheel, environment)
        packages = next((environment / "lib").glob("python*/site-packages"))
        found = sizes(packages)
        python = environment / "bin" / "python"
        subprocess.run([str(python), "-m", "compileall", "-q", str(packages)], check=False)
        compiled = sizes(packages)
    order = sorted(found, key=lambda name: -found[name])
    large = [name for name in order if found[name] >= 1e6]
    rest = [name for name in order if found[name] < 1e6]
    rows = [(name, f"{found[name] / 1e6:.1f}", f"{compiled[name] / 1e6:.1f}") for name in large]
    for title, names in ((f"{len(rest)} others", rest), ("all", order)):
        both = [sum(counted[name] for name in names) / 1e6 for counted in (found, compiled)]
        rows.append((title, *(f"{value:.1f}" for value in both)))
    protocol = "Megabytes (10^6 bytes) of all installed files, without the extras."
    publish(options, ("package", "MB", "MB with bytecode"), rows, protocol)


if __name__ == "__main__":
    main()
