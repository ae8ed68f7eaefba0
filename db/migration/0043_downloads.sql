-- +goose Up
-- Whom a host is to bring a volume's content to, asked a moment ago. The job lasts as long as bytes go, and takes its row with it.
CREATE TABLE volume_reads (
    pair_id text PRIMARY KEY,
    job_id  text COLLATE "C" NOT NULL REFERENCES jobs ON DELETE CASCADE,
    user_id text NOT NULL,
    session text NOT NULL,
    host_id text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX volume_reads_by_job ON volume_reads (job_id);
CREATE INDEX volume_reads_by_user ON volume_reads (user_id);
CREATE INDEX volume_reads_by_host ON volume_reads (host_id);
