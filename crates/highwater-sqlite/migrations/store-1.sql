-- What is fixed at creation, and which of its lives this is; besides, the highest version of a deleted cell: one that
-- is written anew begins above it.
CREATE TABLE meta (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    store      BLOB    NOT NULL,
    epoch      INTEGER NOT NULL,
    partitions INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    cell_floor INTEGER NOT NULL
);

-- Earlier lives of the store, and the last position of each log that this life shares with them. A life of which
-- nothing is shared has the row of partition 0 all the same.
CREATE TABLE lineage (
    epoch     INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    shared    INTEGER NOT NULL,
    PRIMARY KEY (epoch, partition)
) WITHOUT ROWID;

-- The store's time: the latest moment it gave out, in microseconds since 1970. It never runs backwards.
CREATE TABLE moment (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
);

CREATE TABLE container (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

-- `messages` counts the rows of `message`, so that nobody has to.
CREATE TABLE queue (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, messages INTEGER NOT NULL DEFAULT 0);

-- The last position given in each log, whether or not its row is still there, the last one pruned, and the last one
-- whose command was looked at for being forgotten.
CREATE TABLE partition (
    partition INTEGER PRIMARY KEY,
    last      INTEGER NOT NULL,
    pruned    INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0
);

-- Where each command stands that is decided and remembered. One table for all logs: ids that rise with time fill one
-- page of it at a time, while an index on each log would dirty a page of each; and to forget a command does not rewrite
-- its change.
CREATE TABLE mark (
    command   BLOB    NOT NULL,
    partition INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    PRIMARY KEY (command, partition, position)
) WITHOUT ROWID;

-- The newest state of each item: where its latest change with a body, events, another time to live or a deletion
-- stands, and where its body stands. Bodies live in the logs only. The id is empty where it is the same as the partition
-- key.
CREATE TABLE head (
    container     INTEGER NOT NULL,
    partition_key TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    live          INTEGER NOT NULL,
    position      INTEGER,
    body_position INTEGER,
    expires_at    INTEGER,
    PRIMARY KEY (container, partition_key, id)
) WITHOUT ROWID;
CREATE INDEX head_expiry ON head (expires_at) WHERE expires_at IS NOT NULL;

-- Ids of messages, so that a second put is the same message; the only index from id to message. `cell` is the cell
-- that was put with the message and is forgotten with it: its number, which may be given again, and the version it began
-- with, which is then a higher one.
CREATE TABLE remembered (
    seq          INTEGER PRIMARY KEY,
    queue        INTEGER NOT NULL,
    id           BLOB    NOT NULL,
    put_at       INTEGER NOT NULL,
    visible_at   INTEGER NOT NULL,
    cell         INTEGER,
    cell_first   INTEGER
);
CREATE UNIQUE INDEX remembered_id ON remembered (queue, id);

CREATE TABLE message (
    seq           INTEGER PRIMARY KEY,
    queue         INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    body          BLOB    NOT NULL,
    put_at        INTEGER NOT NULL,
    visible_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    dequeue_count INTEGER NOT NULL,
    delivery      INTEGER NOT NULL,
    history       TEXT
);
CREATE INDEX message_due ON message (queue, visible_at);
CREATE INDEX message_expiry ON message (expires_at) WHERE expires_at IS NOT NULL;

-- The poison queues.
CREATE TABLE parked (
    queue         INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    body          BLOB    NOT NULL,
    put_at        INTEGER NOT NULL,
    visible_at    INTEGER NOT NULL,
    dequeue_count INTEGER NOT NULL,
    delivery      INTEGER NOT NULL,
    history       TEXT,
    parking       TEXT    NOT NULL,
    parked_at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX parked_id ON parked (queue, id);

-- `first` is the version with which the cell began, above that of every cell that was there before.
CREATE TABLE cell (
    seq        INTEGER PRIMARY KEY,
    space      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    first      INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    value      BLOB    NOT NULL,
    expires_at INTEGER,
    UNIQUE (space, key)
);
CREATE INDEX cell_expiry ON cell (expires_at) WHERE expires_at IS NOT NULL;
