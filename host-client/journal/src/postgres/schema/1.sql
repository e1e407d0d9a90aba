CREATE TABLE host_client_journal.schema_version (
    version bigint NOT NULL
);
COMMENT ON TABLE host_client_journal.schema_version IS 'The number of the newest change that this schema has.';

CREATE TABLE host_client_journal.holders (
    name text PRIMARY KEY,
    until_ms bigint NOT NULL
);
COMMENT ON TABLE host_client_journal.holders IS
    'Processes, by random names, and until when each holds its runs. All times are in ms since 1970.';

-- Room for a new version of each row, since rows change with every entry.
CREATE TABLE host_client_journal.runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL COLLATE "C" UNIQUE,
    created_ms bigint NOT NULL,
    changed_ms bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('running', 'waiting', 'ended')),
    entries bigint NOT NULL,
    holder text
) WITH (fillfactor = 50);
CREATE INDEX runs_by_beginning ON host_client_journal.runs (created_ms, id);
CREATE INDEX runs_unfinished ON host_client_journal.runs (created_ms, id) WHERE status <> 'ended';
CREATE INDEX runs_by_holder ON host_client_journal.runs (holder) WHERE holder IS NOT NULL;
COMMENT ON TABLE host_client_journal.runs IS 'Durable runs.';
COMMENT ON COLUMN host_client_journal.runs.number IS 'What the other tables know it by.';
COMMENT ON COLUMN host_client_journal.runs.changed_ms IS 'The time of its last entry.';
COMMENT ON COLUMN host_client_journal.runs.entries IS 'How many it has in the table entries.';
COMMENT ON COLUMN host_client_journal.runs.holder IS 'The process that goes on with it.';

CREATE TABLE host_client_journal.plans (
    run bigint PRIMARY KEY REFERENCES host_client_journal.runs ON DELETE CASCADE,
    json json NOT NULL
);
COMMENT ON TABLE host_client_journal.plans IS 'The code of each run, and whatever else running it again needs.';

CREATE TABLE host_client_journal.entries (
    run bigint NOT NULL REFERENCES host_client_journal.runs ON DELETE CASCADE,
    number bigint NOT NULL,
    at_ms bigint NOT NULL,
    kind text NOT NULL,
    call bigint,
    json json NOT NULL,
    chain text NOT NULL,
    PRIMARY KEY (run, number)
);
COMMENT ON TABLE host_client_journal.entries IS 'What happened in each run.';
COMMENT ON COLUMN host_client_journal.entries.number IS '1, 2, 3 and so on within the run.';
COMMENT ON COLUMN host_client_journal.entries.call IS 'The call that it is about.';
COMMENT ON COLUMN host_client_journal.entries.chain IS 'The hash of this entry and of the one before.';

CREATE TABLE host_client_journal.instructions (
    number bigint PRIMARY KEY,
    run bigint NOT NULL REFERENCES host_client_journal.runs ON DELETE CASCADE,
    call bigint NOT NULL,
    json json NOT NULL,
    UNIQUE (run, call)
);
COMMENT ON TABLE host_client_journal.instructions IS 'What other processes tell the one that holds a run.';
COMMENT ON COLUMN host_client_journal.instructions.call IS 'The call that it is about; 0: the run.';

-- A sequence would give out numbers in another order than that in which they can be seen.
CREATE TABLE host_client_journal.last_instruction (
    number bigint NOT NULL
);
INSERT INTO host_client_journal.last_instruction VALUES (0);
COMMENT ON TABLE host_client_journal.last_instruction IS 'The highest number that an instruction ever had.';

CREATE VIEW host_client_journal.history AS
    SELECT runs.id AS run, entries.number, to_timestamp(entries.at_ms / 1000.0) AS at, entries.kind, entries.call,
        entries.json
    FROM host_client_journal.entries JOIN host_client_journal.runs ON runs.number = entries.run;
COMMENT ON VIEW host_client_journal.history IS 'For people: what happened, with the runs'' ids and times that can be read.';
