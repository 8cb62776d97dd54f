-- +goose Up
-- Times are nanoseconds since 1970 in UTC; NULL is not known. IDs are text.
CREATE TABLE meta (
  one         INTEGER PRIMARY KEY CHECK (one = 1),
  ledger_id   TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  -- The oldest release that reads this schema, so that an older program can say
  -- what is needed.
  needs       TEXT    NOT NULL,
  -- The end of the chain.
  head_count  INTEGER NOT NULL,
  head_hash   BLOB    NOT NULL,
  -- The newest checkpoint event, which lists the gaps that pruning left; 0 is none.
  checkpoint  INTEGER NOT NULL
) STRICT;

CREATE TABLE workload_runs (
  num          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  actor        TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  target       TEXT    NOT NULL,
  provider     TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  account      TEXT    NOT NULL,
  region       TEXT    NOT NULL,
  endpoint     TEXT    NOT NULL,
  request_id   TEXT,
  spec_hash    TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  requested_at INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  phase        TEXT    NOT NULL,
  state        TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  exit_code    INTEGER,
  signal       TEXT    NOT NULL,
  oom          INTEGER NOT NULL,
  message      TEXT    NOT NULL,
  started_at   INTEGER,
  ended_at     INTEGER,
  finished_at  INTEGER,
  verdict      TEXT    NOT NULL,
  cancel_at    INTEGER,
  cancel_by    TEXT    NOT NULL,
  cancel_why   TEXT    NOT NULL,
  not_before   INTEGER,
  events       INTEGER NOT NULL,
  holder       TEXT,
  fence        INTEGER NOT NULL,
  spec         TEXT,
  settings     TEXT
) STRICT;

CREATE UNIQUE INDEX workload_runs_request   ON workload_runs (request_id) WHERE request_id IS NOT NULL;
CREATE        INDEX workload_runs_open      ON workload_runs (num) WHERE finished_at IS NULL;
CREATE        INDEX workload_runs_held      ON workload_runs (holder) WHERE finished_at IS NULL;
CREATE        INDEX workload_runs_active    ON workload_runs (provider, phase) WHERE finished_at IS NULL;
CREATE        INDEX workload_runs_requested ON workload_runs (requested_at);
CREATE        INDEX workload_runs_incident  ON workload_runs (action, target, requested_at);
CREATE        INDEX workload_runs_suffix    ON workload_runs (substr(id, -6));

CREATE TABLE run_attempts (
  num          INTEGER PRIMARY KEY,
  run          TEXT    NOT NULL,
  number       INTEGER NOT NULL,
  id           TEXT    NOT NULL,
  handle       TEXT,
  sent_at      INTEGER,
  phase        TEXT    NOT NULL,
  state        TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  exit_code    INTEGER,
  signal       TEXT    NOT NULL,
  oom          INTEGER NOT NULL,
  launches     INTEGER NOT NULL,
  message      TEXT    NOT NULL,
  raw          TEXT,
  created_at   INTEGER,
  started_at   INTEGER,
  seen_running INTEGER,
  ended_at     INTEGER,
  verdict      TEXT    NOT NULL,
  cleanup_err  TEXT    NOT NULL,
  launch       TEXT,
  UNIQUE (run, number)
) STRICT;

CREATE TABLE run_events (
  seq     INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  run     TEXT    NOT NULL,
  attempt INTEGER NOT NULL,
  kind    TEXT    NOT NULL,
  actor   TEXT    NOT NULL,
  change  TEXT    NOT NULL,
  prev    BLOB    NOT NULL,
  hash    BLOB    NOT NULL
) STRICT;

CREATE INDEX run_events_run ON run_events (run);

CREATE TABLE holders (
  id        TEXT PRIMARY KEY,
  kind      TEXT    NOT NULL,
  pid       INTEGER NOT NULL,
  host      TEXT    NOT NULL,
  version   TEXT    NOT NULL,
  lock_file TEXT    NOT NULL,
  started   INTEGER,
  expires   INTEGER
) STRICT;

PRAGMA application_id = 0x57646c73;
PRAGMA user_version = 1;
