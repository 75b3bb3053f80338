CREATE TABLE view (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    healing    TEXT,
    UNIQUE (name, generation)
);

-- How far each view has come in each partition of a store, and who may write it. A view that was cleared, for the
-- reason in `healing`, is whole again when each position is at least `until`.
CREATE TABLE slot (
    view        INTEGER NOT NULL,
    store       BLOB    NOT NULL,
    partition   INTEGER NOT NULL,
    owner_epoch INTEGER NOT NULL,
    store_epoch INTEGER NOT NULL,
    position    INTEGER,
    until       INTEGER,
    PRIMARY KEY (view, store, partition)
) WITHOUT ROWID;

-- A document without a body is a tombstone, kept for its marks.
CREATE TABLE document (
    view    INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    version INTEGER NOT NULL,
    schema  INTEGER,
    body    BLOB,
    marks   TEXT    NOT NULL,
    UNIQUE (view, key)
);
