CREATE TABLE schema_version (
    version INTEGER NOT NULL -- the number of the newest change that this file has
) STRICT;

CREATE TABLE holders (
    name     TEXT PRIMARY KEY, -- the random name of a process
    until_ms INTEGER NOT NULL  -- until when it holds its runs; all times are in ms since 1970
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    number     INTEGER PRIMARY KEY, -- what the other tables know it by
    id         TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,    -- the time of its last entry
    status     TEXT NOT NULL CHECK (status IN ('running', 'waiting', 'ended')),
    entries    INTEGER NOT NULL,    -- how many it has in the table entries
    holder     TEXT                 -- the process that goes on with it
) STRICT;
CREATE INDEX runs_by_beginning ON runs (created_ms, id);
CREATE INDEX runs_unfinished ON runs (created_ms, id) WHERE status <> 'ended';
CREATE INDEX runs_by_holder ON runs (holder) WHERE holder IS NOT NULL;

-- Apart from the runs, whose rows change with every entry.
CREATE TABLE plans (
    run  INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    json TEXT NOT NULL -- the code and whatever else running it again needs
) STRICT;

CREATE TABLE entries (
    run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    number INTEGER NOT NULL, -- 1, 2, 3 and so on within the run
    at_ms  INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    call   INTEGER,          -- the call that it is about
    json   TEXT NOT NULL,
    chain  TEXT NOT NULL,    -- the hash of this entry and of the one before
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE instructions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
    run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    call   INTEGER NOT NULL,                  -- the call that it is about; 0: the run
    json   TEXT NOT NULL,
    UNIQUE (run, call)
) STRICT;

-- For people: what happened, with the runs' ids and times that can be read.
CREATE VIEW history AS
    SELECT runs.id AS run, entries.number, strftime('%Y-%m-%dT%H:%M:%fZ', entries.at_ms / 1000.0, 'unixepoch') AS at,
        entries.kind, entries.call, entries.json
    FROM entries JOIN runs ON runs.number = entries.run;
