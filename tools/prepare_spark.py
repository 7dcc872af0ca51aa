"""Makes sure that Spark can start: Java (from a Python package if the machine has none) and Delta's jars."""

import subprocess
import sys

from seamark.errors import SeamarkError
from seamark.spark import fetch_delta_jars, find_java


def main() -> None:
    if find_java() is None:
        print("setup: no Java 17 or later was found; installing one in .venv", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-r", "requirements/java.txt"], check=True)
    try:
        fetch_delta_jars()
    except SeamarkError as error:
        sys.exit(f"setup: {error}")


if __name__ == "__main__":
    main()
