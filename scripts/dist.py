"""Build the wheel and the sdist of a commit: the same commit gives the same bytes.

    python scripts/dist.py [--out FOLDER] [REVISION]

Builds from `git archive`, so files that are not committed play no part, and neither do the umask or
the folder of the checkout. The wheel is built from the sdist, which shows that it is complete.
The build tools are those of the running Python: another setuptools or zlib may give other bytes.
Prints the SHA-256 sum and the path of each file, and what an index would object to (twine).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Build both files into the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("revision", nargs="?", default="HEAD")
    options = parser.parse_args(arguments)
    if options.revision == "HEAD" and git("status", "--porcelain", "--untracked-files=no"):
        sys.stderr.write("warning: the files are of HEAD, without your uncommitted changes\n")
    os.umask(0o022)  # setuptools creates files with it, and their modes are part of both archives
    options.out.mkdir(parents=True, exist_ok=True)
    made = build(options.revision, options.out)
    for path in made:
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], check=True)


def build(revision: str, out: Path) -> list[Path]:
    """Build the wheel and the sdist of the revision into `out`. Returns their paths, by name."""
    epoch = int(git("log", "-1", "--format=%ct", revision))
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        unpack_commit(revision, source)
        ran = subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(source)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if ran.returncode:
            sys.exit(f"{ran.stdout}error: the build failed.")
        for sdist in built.glob("*.tar.gz"):
            repack(sdist, epoch)
        return [Path(shutil.copy(each, out)) for each in sorted(built.iterdir())]


def unpack_commit(revision: str, folder: Path) -> None:
    """The files of the revision, with the same modes whatever the settings of git and the umask."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    git("-c", "tar.umask=0022", "archive", "--format=tar", f"--output={archive}", revision)
    subprocess.run(
        ["tar", "--extract", "--preserve-permissions", "--no-same-owner", f"--file={archive}"],
        cwd=folder,
        check=True,
    )


def repack(sdist: Path, epoch: int) -> None:
    """Write the sdist again, sorted by name, without the owner, modes and times of this build."""
    with tarfile.open(sdist) as found:
        members = [
            (member, content.read() if (content := found.extractfile(member)) else b"")
            for member in sorted(found.getmembers(), key=lambda member: member.name)
        ]
    with (
        sdist.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped,
        tarfile.open(mode="w", fileobj=zipped, format=tarfile.PAX_FORMAT) as made,
    ):
        for member, content in members:
            made.addfile(_anonymous(member, epoch), io.BytesIO(content))


def _anonymous(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    """The member's name, kind and size, and nothing of the machine that built it."""
    made = tarfile.TarInfo(member.name)
    made.type, made.size = member.type, member.size
    made.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    made.mtime = epoch
    return made


def git(*arguments: str) -> str:
    """What git prints. Ends the process with git's own message if it fails."""
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{ran.stderr}error: git {arguments[0]} failed: dist builds commits of a clone.")
    return ran.stdout.strip()


if __name__ == "__main__":
    main()
