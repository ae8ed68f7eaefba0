-- +goose Up
-- Names are compared byte by byte (COLLATE "C"), so that prefixes are found by index whatever the database's locale is.
-- Left of "observed" people write, through internal/control; right of it only a host's report writes, guarded by report_seq.

-- vm_phase is fleet.VM.Phase in SQL, for filters; a test holds the two together. fresh: the host was heard within 30 s.
-- +goose StatementBegin
CREATE FUNCTION vm_phase(spec jsonb, status jsonb, generation bigint, observed bigint, deleted_at timestamptz, fresh boolean)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN deleted_at IS NOT NULL THEN 'deleting'
        WHEN status IS NULL OR observed = 0 THEN 'creating'
        WHEN fresh IS NOT TRUE THEN 'unknown'
        WHEN status->>'power' = 'absent' THEN
            CASE WHEN generation > observed THEN 'creating'
                 WHEN COALESCE(status->>'error', '') <> '' THEN 'failed' ELSE 'missing' END
        WHEN generation > observed AND spec->>'power' <> status->>'power' THEN
            CASE spec->>'power' WHEN 'running' THEN 'starting' WHEN 'paused' THEN 'pausing' ELSE 'stopping' END
        WHEN generation > observed THEN 'updating'
        WHEN status->>'power' = 'running' THEN
            CASE WHEN jsonb_array_length(COALESCE(NULLIF(status->'nextBoot', 'null'), '[]')) > 0 THEN 'needsRestart' ELSE 'running' END
        WHEN status->>'power' = 'paused' THEN 'paused'
        WHEN status->>'power' = 'crashed' THEN 'crashed'
        ELSE 'stopped'
    END
$$;
-- +goose StatementEnd

CREATE TABLE users (
    id            text PRIMARY KEY,
    name          text NOT NULL CONSTRAINT user_name_taken UNIQUE,
    role          text NOT NULL CONSTRAINT user_role_known CHECK (role IN ('', 'admin', 'operator', 'viewer')),
    password_hash text NOT NULL,
    must_change   boolean NOT NULL DEFAULT false,
    disabled      boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now(),
    last_seen_at  timestamptz,
    sessions_from timestamptz NOT NULL DEFAULT now()   -- sessions that began before this have ended
);

CREATE TABLE projects (
    id          text PRIMARY KEY,
    name        text COLLATE "C" NOT NULL CONSTRAINT project_name_taken UNIQUE,
    description text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE project_members (
    project_id text NOT NULL REFERENCES projects ON DELETE CASCADE,
    user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
    role       text NOT NULL CONSTRAINT member_role_known CHECK (role IN ('member', 'viewer')),
    PRIMARY KEY (project_id, user_id)
);
CREATE INDEX project_members_by_user ON project_members (user_id);

-- alexedwards/scs/pgxstore's table; tokens are stored hashed.
CREATE TABLE sessions (
    token  text PRIMARY KEY,
    data   bytea NOT NULL,
    expiry timestamptz NOT NULL
);
CREATE INDEX sessions_by_expiry ON sessions (expiry);

CREATE TABLE tokens (
    id           text PRIMARY KEY,
    user_id      text NOT NULL REFERENCES users ON DELETE CASCADE,
    name         text NOT NULL,
    hash         bytea NOT NULL CONSTRAINT token_hash_unique UNIQUE,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX tokens_by_user ON tokens (user_id);

-- One row a key: an account name or a remote address. Failures decay with time.
CREATE TABLE login_throttle (
    key       text PRIMARY KEY,
    failures  integer NOT NULL,
    last_at   timestamptz NOT NULL
);

CREATE TABLE authority (
    only_one   boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    cert_pem   text NOT NULL,
    key_pem    text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE hosts (
    id                  text PRIMARY KEY,
    name                text COLLATE "C" NOT NULL CONSTRAINT host_name_taken UNIQUE,
    machine             text NOT NULL DEFAULT '',   -- the machine's UUID as it joined; empty: it named none
    spec                jsonb NOT NULL DEFAULT '{}',
    generation          bigint NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL DEFAULT now(),
    -- observed
    status              jsonb,
    report_seq          bigint NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX host_machine_taken ON hosts (machine) WHERE machine <> '';

-- What every heartbeat touches, apart from hosts so that a heartbeat rewrites a narrow row (HOT) and wakes nobody.
CREATE TABLE host_sessions (
    host_id     text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    session     bytea,              -- hash of the agent's session
    number      bigint NOT NULL DEFAULT 0,  -- raised by each hello; report numbers start at number << 32
    instance    text NOT NULL DEFAULT '',
    fingerprint text NOT NULL DEFAULT '',
    digest      text NOT NULL DEFAULT '',   -- of the newest full report; '' asks for a full one
    report_seq  bigint NOT NULL DEFAULT 0,  -- of the newest full report
    seen_at     timestamptz,        -- when the agent was last heard
    blind_since timestamptz,        -- since when it does not reach its hypervisor
    looked_at   timestamptz GENERATED ALWAYS AS (LEAST(seen_at, blind_since)) STORED,  -- how old what it says about VMs, pools and networks is
    conflict    text NOT NULL DEFAULT '',
    conflict_at timestamptz,
    load        jsonb
) WITH (fillfactor = 60);

CREATE TABLE join_tokens (
    id         text PRIMARY KEY,
    hash       bytea NOT NULL CONSTRAINT join_token_hash_unique UNIQUE,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    used_by    text NOT NULL DEFAULT '',
    revoked_at timestamptz
);

CREATE TABLE vms (
    id                  text COLLATE "C" PRIMARY KEY,
    project_id          text NOT NULL REFERENCES projects,
    host_id             text NOT NULL REFERENCES hosts,
    name                text COLLATE "C" NOT NULL,
    labels              jsonb NOT NULL DEFAULT '{}',
    description         text NOT NULL DEFAULT '',
    spec                jsonb NOT NULL,
    generation          bigint NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz,
    -- observed
    status              jsonb,
    observed_generation bigint NOT NULL DEFAULT 0,
    report_seq          bigint NOT NULL DEFAULT 0,
    -- kept by PostgreSQL itself, so that lists, counters and placement need not open the jsonb of every VM
    cpus                integer NOT NULL GENERATED ALWAYS AS ((spec->>'cpus')::integer) STORED,
    memory_mib          bigint NOT NULL GENERATED ALWAYS AS ((spec->>'memoryMiB')::bigint) STORED,
    heard               text COLLATE "C" NOT NULL  -- the phase if the host is heard; never shown: the page's word also asks how fresh the host is
                        GENERATED ALWAYS AS (vm_phase(spec, status, generation, observed_generation, deleted_at, true)) STORED,
    CONSTRAINT vm_name_taken UNIQUE (project_id, name)
);
CREATE INDEX vms_by_name ON vms (name, id);                 -- the list's own order, keyset paging
CREATE INDEX vms_by_host ON vms (host_id, name, id);        -- a host's page, its reports, the tree
CREATE INDEX vms_by_created ON vms (created_at, id);
CREATE INDEX vms_drifted ON vms (host_id) WHERE generation > observed_generation OR deleted_at IS NOT NULL;  -- reconcile/drift
CREATE INDEX vms_by_label ON vms USING gin (labels jsonb_path_ops);
CREATE INDEX vms_by_cpus ON vms (cpus, id);
CREATE INDEX vms_by_memory ON vms (memory_mib, id);
CREATE INDEX vms_by_heard ON vms (heard, name, id);         -- phase filters, also for phases that few VMs are in
CREATE INDEX vms_counted ON vms (host_id, project_id, heard) INCLUDE (cpus, memory_mib);    -- what a host's VMs add up to, from the index alone
CREATE INDEX vms_by_spec ON vms USING gin (spec jsonb_path_ops);                            -- pool, volume, network and MAC of a VM
CREATE INDEX vms_by_address ON vms USING gin ((status->'nics') jsonb_path_ops);             -- addresses that guests have

-- Domains that Quantix did not make: written by reports only, replaced as a whole when they change.
CREATE TABLE found_vms (
    host_id text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    id      text NOT NULL,
    name    text COLLATE "C" NOT NULL,
    status  jsonb NOT NULL,
    PRIMARY KEY (host_id, id)
);
CREATE INDEX found_vms_by_name ON found_vms (name, id);

-- Meters have no trigger: load changes on every report and wakes nobody.
CREATE UNLOGGED TABLE vm_meters (
    vm_id text NOT NULL REFERENCES vms ON DELETE CASCADE,
    at    timestamptz NOT NULL,
    meter jsonb NOT NULL,   -- wire.Meter as reported
    cpu_percent real,       -- since the meter before; NULL for the first
    PRIMARY KEY (vm_id)
) WITH (fillfactor = 60);

CREATE TABLE pools (
    id         text PRIMARY KEY,
    name       text COLLATE "C" NOT NULL CONSTRAINT pool_name_taken UNIQUE,
    spec       jsonb NOT NULL,
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz  -- deletion is asked for: the row goes with the last of its hosts
);

CREATE TABLE pool_hosts (
    pool_id             text NOT NULL REFERENCES pools ON DELETE CASCADE,
    host_id             text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    assigned            boolean NOT NULL DEFAULT true,  -- false: release is asked for, the host has not yet done it
    -- observed
    status              jsonb,
    observed_generation bigint NOT NULL DEFAULT 0,
    report_seq          bigint NOT NULL DEFAULT 0,
    reported_at         timestamptz,
    PRIMARY KEY (pool_id, host_id)
);
CREATE INDEX pool_hosts_by_host ON pool_hosts (host_id);

CREATE TABLE networks (
    id         text PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    kind       text NOT NULL CONSTRAINT network_kind_known CHECK (kind IN ('libvirt', 'bridge')),
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT network_name_taken UNIQUE (kind, name)
);

CREATE TABLE network_hosts (
    network_id  text NOT NULL REFERENCES networks ON DELETE CASCADE,
    host_id     text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    status      jsonb NOT NULL,
    report_seq  bigint NOT NULL DEFAULT 0,
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (network_id, host_id)
);
CREATE INDEX network_hosts_by_host ON network_hosts (host_id);

CREATE TABLE jobs (
    id           text PRIMARY KEY,             -- version 7 UUID: ordered by birth
    host_id      text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    project_id   text REFERENCES projects ON DELETE CASCADE,   -- NULL: of no project
    kind         text NOT NULL,
    subject      text NOT NULL,
    subject_name text NOT NULL,
    args         jsonb NOT NULL DEFAULT '{}',
    generation   bigint NOT NULL,
    state        text NOT NULL DEFAULT 'queued'
                 CONSTRAINT job_state_known CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'unknown')),
    epoch        bigint NOT NULL DEFAULT 0,
    attempt      integer NOT NULL DEFAULT 0,
    lease_until  timestamptz,
    run_after    timestamptz NOT NULL DEFAULT now(),
    progress     integer NOT NULL DEFAULT 0,
    note         text NOT NULL DEFAULT '',
    error        text NOT NULL DEFAULT '',
    created_by   text NOT NULL,
    user_id      text REFERENCES users ON DELETE SET NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    started_at   timestamptz,
    ended_at     timestamptz
);
-- Edits coalesce: a subject has at most one waiting job a kind. A console is a person's own and never coalesces.
CREATE UNIQUE INDEX job_waiting ON jobs (subject, host_id, kind) WHERE state = 'queued' AND kind <> 'console.open';
CREATE INDEX jobs_to_claim ON jobs (host_id, id) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE state = 'running';
CREATE INDEX jobs_by_subject ON jobs (subject, id DESC);
CREATE INDEX jobs_by_user ON jobs (user_id, id DESC);
CREATE INDEX jobs_by_project ON jobs (project_id, id DESC);
CREATE INDEX jobs_by_host ON jobs (host_id, id DESC);
CREATE INDEX jobs_failed ON jobs (ended_at) WHERE state IN ('failed', 'unknown');           -- what wants attention

-- Epochs never fall, also across jobs of one subject: an agent refuses an older one.
CREATE SEQUENCE job_epoch;

CREATE TABLE console_tickets (
    hash       bytea PRIMARY KEY,
    console_id text NOT NULL,
    vm_id      text NOT NULL REFERENCES vms ON DELETE CASCADE,
    user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
    session    text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX console_tickets_by_console ON console_tickets (console_id);
CREATE INDEX console_tickets_by_expiry ON console_tickets (expires_at);

-- The same key by the same person gives the first answer again.
CREATE TABLE idempotency (
    user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
    key        text NOT NULL,
    request    bytea NOT NULL,      -- hash of what was asked
    subject_id text NOT NULL,       -- what was made
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL,
    user_id text,
    address text NOT NULL DEFAULT '',
    action  text NOT NULL,
    subject text NOT NULL,
    name    text NOT NULL DEFAULT '',
    detail  text NOT NULL DEFAULT ''
);
CREATE INDEX audit_by_subject ON audit (subject, id DESC);

-- +goose StatementBegin
CREATE FUNCTION drop_empty_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Of two hosts that release at the same moment, the second must see that the first is gone.
    PERFORM 1 FROM pools p WHERE p.id = OLD.pool_id FOR UPDATE;
    DELETE FROM pools p WHERE p.id = OLD.pool_id AND p.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM pool_hosts ph WHERE ph.pool_id = p.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER drop_empty_pool AFTER DELETE ON pool_hosts FOR EACH ROW EXECUTE FUNCTION drop_empty_pool();

-- announce sends the key of what changed, never data. Keys: vm:<id> host:<id> pool:<id> net:<id> jobs:<host> tasks projects.
-- +goose StatementBegin
CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN PERFORM pg_notify('quantix', 'vm:' || r.id);
        WHEN 'hosts' THEN PERFORM pg_notify('quantix', 'host:' || r.id);
        WHEN 'found_vms' THEN PERFORM pg_notify('quantix', 'host:' || r.host_id);
        WHEN 'pools' THEN PERFORM pg_notify('quantix', 'pool:' || r.id);
        WHEN 'pool_hosts' THEN PERFORM pg_notify('quantix', 'pool:' || r.pool_id);
        WHEN 'network_hosts' THEN PERFORM pg_notify('quantix', 'net:' || r.network_id);
        WHEN 'projects' THEN PERFORM pg_notify('quantix', 'projects');
        WHEN 'jobs' THEN
            IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.state = 'queued') OR (TG_OP = 'UPDATE' AND OLD.state = 'running' AND NEW.state <> 'running') THEN
                PERFORM pg_notify('quantix', 'jobs:' || r.host_id);
            END IF;
            IF r.kind <> 'console.open' THEN -- a console is no task that pages show
                PERFORM pg_notify('quantix', 'tasks');
                PERFORM pg_notify('quantix', r.subject);
            END IF;
    END CASE;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER announce AFTER INSERT OR DELETE ON vms FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce_change AFTER UPDATE ON vms FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON hosts FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON found_vms FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON pools FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON pool_hosts FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON network_hosts FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON projects FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT OR DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION announce();
-- A renewed lease is no news.
CREATE TRIGGER announce_change AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.progress <> NEW.progress OR OLD.note <> NEW.note OR OLD.run_after <> NEW.run_after)
    EXECUTE FUNCTION announce();
