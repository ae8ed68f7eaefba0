-- +goose Up
-- What people send into a pool on a host, by way of a portal. The upload lasts as long as its task's job.
CREATE TABLE uploads (
    id           text COLLATE "C" PRIMARY KEY,
    task_id      text COLLATE "C" NOT NULL REFERENCES tasks ON DELETE CASCADE,
    user_id      text NOT NULL,              -- who alone may continue it
    host_id      text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    pool_id      text NOT NULL,
    volume       text NOT NULL,
    size_bytes   bigint NOT NULL,
    checksum     text NOT NULL DEFAULT '',
    file         text NOT NULL DEFAULT '',   -- what tells the sender's own file from others
    created_at   timestamptz NOT NULL DEFAULT now(),
    heard_at     timestamptz NOT NULL DEFAULT now(), -- when somebody last continued it
    CONSTRAINT upload_has_a_size CHECK (size_bytes > 0)
);
CREATE INDEX uploads_by_task ON uploads (task_id);
CREATE INDEX uploads_by_user ON uploads (user_id);
CREATE INDEX uploads_by_host ON uploads (host_id);

-- Where an upload's host is to come, for whose session. Each request has its own: one that nobody waits behind any more must not keep the
-- next from its host.
CREATE TABLE upload_pairs (
    pair_id   text PRIMARY KEY,
    upload_id text COLLATE "C" NOT NULL REFERENCES uploads ON DELETE CASCADE,
    session   text NOT NULL,
    at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX upload_pairs_by_upload ON upload_pairs (upload_id);
