-- +goose Up
-- The way of one file from one host to another, as long as both hosts' jobs last. The hosts meet here: the sender says which ticket it has, the
-- receiver where it listens for it. A ticket is known by its hash alone; the sender has no other than the newest.
CREATE TABLE transfers (
    id          text COLLATE "C" PRIMARY KEY,
    send_job    text COLLATE "C" NOT NULL REFERENCES jobs ON DELETE CASCADE,
    receive_job text COLLATE "C" NOT NULL REFERENCES jobs ON DELETE CASCADE,
    from_host   text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    to_host     text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    ticket      text NOT NULL DEFAULT '',      -- SHA-256 of the sender's
    heard       text NOT NULL DEFAULT '',      -- the ticket that the receiver listens for
    listens     text[] NOT NULL DEFAULT '{}',  -- where it does
    pair_id     text NOT NULL DEFAULT '',      -- where both come to, where they do not reach each other,
    pair_url    text NOT NULL DEFAULT '',      -- at which portal,
    paired      text NOT NULL DEFAULT '',      -- for which ticket,
    paired_at   timestamptz,                   -- and since when
    CONSTRAINT transfer_between_two CHECK (from_host <> to_host)
);
CREATE INDEX transfers_by_sender ON transfers (send_job);
CREATE INDEX transfers_by_receiver ON transfers (receive_job);
CREATE INDEX transfers_by_pair ON transfers (pair_id) WHERE pair_id <> '';
CREATE INDEX transfers_by_source ON transfers (from_host);
CREATE INDEX transfers_by_target ON transfers (to_host);

-- VMs that are on their way to another host.
CREATE INDEX jobs_of_leaving ON jobs (subject) WHERE kind = 'vm.leave' AND state IN ('queued', 'running');

-- What a VM has left behind on the host that it went from: asked to be deleted once its new host has the VM.
CREATE TABLE left_disks (
    vm_id   text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    host_id text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    pool_id text NOT NULL,
    volume  text COLLATE "C" NOT NULL,
    PRIMARY KEY (vm_id, host_id, pool_id, volume)
);
CREATE INDEX left_disks_by_host ON left_disks (host_id);
