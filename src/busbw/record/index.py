"""The index of the run home: every good launch, its points in their series, and where their level changed.

An SQLite file that holds nothing that the run folders do not: it may be deleted, and is made again from them.
Several processes write it in turn, in transactions of milliseconds, with SQLite's own locks and without a
write-ahead log, which network file systems do not carry. Where it cannot be opened, as on a file system
without locks, callers read the folders into an index in memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from busbw.model.history import Change, KeptCase, Launch, Measured, Point, Series, Testbed

FILE: Final = "index.sqlite"
_VERSION: Final = 3
_BUSY_S: Final = 10.0
_NEVER: Final = 2**63 - 1
_SCHEMA: Final = """
CREATE TABLE testbed(key TEXT PRIMARY KEY, machine TEXT, settings TEXT);
CREATE TABLE launch(id INTEGER PRIMARY KEY, run TEXT UNIQUE, at INTEGER, testbed TEXT, alike TEXT,
    is_own INTEGER, accepted TEXT, fields TEXT);
CREATE INDEX launch_of_testbed ON launch(testbed, alike, at);
CREATE TABLE series(id INTEGER PRIMARY KEY, testbed TEXT, operation TEXT, kind TEXT, size_bytes INTEGER,
    bus_bytes REAL, UNIQUE(testbed, operation, kind, size_bytes));
CREATE TABLE point(series INTEGER, at INTEGER, launch INTEGER, time_ns REAL, PRIMARY KEY(series, at))
    WITHOUT ROWID;
CREATE TABLE seen(folder TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE INDEX point_of_launch ON point(launch);
CREATE TABLE change(series INTEGER, at INTEGER, launch INTEGER, found INTEGER, before_ns REAL, after_ns REAL,
    explained TEXT, PRIMARY KEY(series, at)) WITHOUT ROWID;
"""
# Of a launch, beside its testbed and its cases: one JSON object. What is looked for has columns too.
_FIELDS: Final = tuple(each.name for each in fields(Launch) if each.name not in ("testbed", "cases"))


def moment(ended: str, run: str) -> int:
    """Microseconds since 1970, whose last three digits are the run's: launches that ended in the same
    millisecond have one order, whoever is added first.
    """
    time = datetime.fromisoformat(ended)
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1e3) * 1000 + zlib.crc32(run.encode()) % 1000


class Index:
    """An open index. Every method may raise sqlite3.Error."""

    def __init__(self, path: Path | None) -> None:
        """``path`` is the file, which is made where it is missing; None: in memory. A file of another
        version, or that is no index, is made anew and is empty.
        """
        self._db = _connected(path)
        self._testbeds: dict[str, Testbed] = {}

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it or nothing, and no other writer meanwhile."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # ---- writing ----------------------------------------------------------------------------------------

    def add(self, launch: Launch) -> dict[int, int]:
        """Add a launch, or replace what is known of it. The numbers of the series whose changes are to be
        looked for, and from which ``moment`` on: 0, from the first, where it is not the newest.
        """
        touched: dict[int, int] = {}
        known = self._db.execute("SELECT id FROM launch WHERE run=?", (launch.run,)).fetchone()
        if known is not None:
            was = self._db.execute("SELECT series FROM point WHERE launch=?", known)
            touched = {series: 0 for (series,) in was}
            self._db.execute("DELETE FROM point WHERE launch=?", known)
            self._db.execute("DELETE FROM launch WHERE id=?", known)
        bed, at = launch.testbed, moment(launch.ended, launch.run)
        self._db.execute(
            "INSERT OR IGNORE INTO testbed VALUES(?,?,?)", (bed.key, _json(bed.machine), _json(bed.settings))
        )
        is_own = not launch.imported and not launch.excluded
        kept = _json({name: getattr(launch, name) for name in _FIELDS})
        number = self._db.execute(
            "INSERT INTO launch VALUES(NULL,?,?,?,?,?,?,?)",
            (launch.run, at, bed.key, launch.alike, is_own, launch.accepted, kept),
        ).lastrowid
        for case, seen in launch.cases.items() if not launch.excluded else ():
            series = self._series(bed.key, case, seen)
            newer = self._db.execute("SELECT 1 FROM point WHERE series=? AND at>=?", (series, at)).fetchone()
            self._db.execute(
                "INSERT OR REPLACE INTO point VALUES(?,?,?,?)", (series, at, number, seen.time_ns)
            )
            touched.setdefault(series, at if newer is None else 0)
        return touched

    def _series(self, testbed: str, case: KeptCase, seen: Measured) -> int:
        found = self._db.execute(
            "SELECT id FROM series WHERE testbed=? AND operation=? AND kind=? AND size_bytes=?",
            (testbed, *case),
        ).fetchone()
        if found is not None:
            return int(found[0])
        made = self._db.execute("INSERT INTO series VALUES(NULL,?,?,?,?,?)", (testbed, *case, seen.bus_bytes))
        return int(made.lastrowid or 0)

    def see(self, folders: Iterable[str]) -> None:
        """Nothing else is to come from these run folders."""
        self._db.executemany("INSERT OR IGNORE INTO seen VALUES(?)", [(name,) for name in folders])

    def put_changes(self, series: int, changes: Iterable[Change]) -> None:
        """Keep these changes of level of a series, and no others."""
        self._db.execute("DELETE FROM change WHERE series=?", (series,))
        self._db.executemany(
            "INSERT INTO change VALUES(?,?,?,?,?,?,?)",
            [(series, each.at, each.launch, each.found, each.before_ns, each.after_ns, _json(each.explained))
             for each in changes],
        )  # fmt: skip

    # ---- reading ----------------------------------------------------------------------------------------

    def runs(self) -> set[str]:
        """The launches and folders that are known, by their path in the home."""
        rows = self._db.execute("SELECT run FROM launch UNION SELECT folder FROM seen")
        return {run for (run,) in rows}

    def series(self, testbed: str = "", case: KeptCase | None = None) -> list[Series]:
        """All, or those of one testbed, or one of them."""
        of_testbed = "testbed=?" if testbed else "?=''"
        of_case = "" if case is None else "AND operation=? AND kind=? AND size_bytes=?"
        rows = self._db.execute(
            f"SELECT * FROM series WHERE {of_testbed} {of_case} ORDER BY id", (testbed, *(case or ()))
        )
        return [
            Series(number, self.testbed(key), KeptCase(operation, kind, size), bus_bytes)
            for number, key, operation, kind, size, bus_bytes in rows
        ]

    def testbeds(self) -> list[str]:
        """Their digests, that of the newest launch first."""
        rows = self._db.execute("SELECT testbed FROM launch GROUP BY testbed ORDER BY max(at) DESC")
        return [key for (key,) in rows]

    def count(self, series: int) -> int:
        """How many points a series has."""
        return int(self._db.execute("SELECT count(*) FROM point WHERE series=?", (series,)).fetchone()[0])

    def testbed(self, key: str) -> Testbed:
        """By its digest."""
        if key not in self._testbeds:
            rows = self._db.execute("SELECT * FROM testbed")
            self._testbeds = {own: Testbed(own, json.loads(m), json.loads(s)) for own, m, s in rows}
        return self._testbeds[key]

    def points(self, series: int, newest: int = -1, since: int = _NEVER) -> list[Point]:
        """Of a series, in order: from ``since`` on, and the ``newest`` of those before."""
        rows = self._db.execute(
            "SELECT * FROM (SELECT at, launch, time_ns FROM point WHERE series=? AND at<? ORDER BY at DESC"
            " LIMIT ?) UNION ALL SELECT at, launch, time_ns FROM point WHERE series=? AND at>=? ORDER BY at",
            (series, since, newest, series, since),
        )
        return [Point(*row) for row in rows]

    def changes(self, series: int) -> list[Change]:
        """Of a series, in order."""
        rows = self._db.execute(
            "SELECT at, launch, found, before_ns, after_ns, explained FROM change WHERE series=? ORDER BY at",
            (series,),
        )
        return [
            Change(at, launch, found, before_ns, after_ns, tuple(json.loads(explained)))
            for at, launch, found, before_ns, after_ns, explained in rows
        ]

    def accepted(self, series: int) -> dict[int, str]:
        """Why the user accepted a level, by the ``at`` of the points that he named."""
        rows = self._db.execute(
            "SELECT point.at, accepted FROM launch JOIN point ON point.launch=launch.id"
            " WHERE accepted<>'' AND series=?",
            (series,),
        )
        return dict(rows.fetchall())

    def launches(self, numbers: Collection[int] | None = None) -> dict[int, Launch]:
        """By their numbers, without their cases: all, or these."""
        chosen = "" if numbers is None else f"WHERE id IN ({','.join(map(str, map(int, numbers)))})"
        rows = self._db.execute(f"SELECT id, testbed, fields FROM launch {chosen} ORDER BY at")
        return {number: self._launch(key, kept, {}) for number, key, kept in rows}

    def of_machine(self, machine: object, newest: int) -> list[Launch]:
        """Launches of one kind of machine that busbw measured and nobody excluded, with their cases, in
        order: the ``newest`` of each group that is alike.
        """
        rows = self._db.execute(
            "SELECT id, testbed, fields FROM (SELECT *, ROW_NUMBER() OVER"
            " (PARTITION BY alike ORDER BY at DESC) AS place FROM launch WHERE is_own"
            " AND testbed IN (SELECT key FROM testbed WHERE machine=?)) WHERE place<=? ORDER BY at",
            (_json(machine), newest),
        ).fetchall()
        cases = (
            "SELECT operation, kind, size_bytes, time_ns, bus_bytes FROM point JOIN series"
            " ON series.id=point.series WHERE launch=?"
        )
        return [
            self._launch(
                key,
                kept,
                {KeptCase(*own[:3]): Measured(*own[3:]) for own in self._db.execute(cases, (number,))},
            )
            for number, key, kept in rows
        ]

    def _launch(self, testbed: str, kept: str, cases: dict[KeptCase, Measured]) -> Launch:
        own = json.loads(kept)
        own |= {"tags": tuple(own["tags"]), "hosts": tuple(own["hosts"])}
        return Launch(testbed=self.testbed(testbed), cases=cases, **own)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _connected(path: Path | None) -> sqlite3.Connection:
    """A damaged file, or one of another version, is replaced. Raises sqlite3.Error."""
    if path is not None and not _has_locks(path.parent):
        # SQLite takes it for the lock of another process, and waits.
        raise sqlite3.OperationalError(f"no file locks in {path.parent}")
    for _ in range(2):
        db = sqlite3.connect(path or ":memory:", timeout=_BUSY_S, isolation_level=None)
        try:
            # What power loss costs can be made again; no run waits for the disk.
            db.execute("PRAGMA synchronous=OFF")
            if _prepared(db):
                return db
        except sqlite3.OperationalError:  # locked, read-only, no file system for it: not the file's fault
            db.close()
            raise
        except sqlite3.DatabaseError:
            pass
        db.close()
        assert path is not None
        path.unlink(missing_ok=True)
    raise sqlite3.OperationalError(f"{path} cannot be made")


def _has_locks(folder: Path) -> bool:
    """Whether its file system has any; where that cannot be tried, SQLite has to."""
    with contextlib.ExitStack() as stack:
        try:
            own = stack.enter_context(TemporaryFile(dir=folder))
        except OSError:
            return True
        with contextlib.suppress(OSError):
            fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _prepared(db: sqlite3.Connection) -> bool:
    """Whether it has the tables of this version, which an empty file is given."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:  # another process may have been first
            for statement in filter(str.strip, _SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={_VERSION}")
        db.execute("COMMIT")
        version = _VERSION
    db.execute("SELECT count(*) FROM testbed").fetchone()  # raises where the file is damaged
    return bool(version == _VERSION)
