-- +goose Up
-- What is defined once and executed by hosts stands in one table: a row for each object and host. Left of "observed" people write,
-- through internal/control; right of it only the host's report.
CREATE TABLE assignments (
    noun                text COLLATE "C" NOT NULL,  -- as in subjects and keys: 'pool', 'net'
    object_id           text NOT NULL,
    host_id             text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    -- 'assign': the host is to have it. 'release': it is to give it up, and has not yet done so. '': nobody asked, the host has it
    asked               text NOT NULL DEFAULT '' CONSTRAINT assignment_asked_known CHECK (asked IN ('assign', 'release', '')),
    -- observed
    status              jsonb,
    observed_generation bigint NOT NULL DEFAULT 0,  -- of the object
    report_seq          bigint NOT NULL DEFAULT 0,
    reported_at         timestamptz,
    -- kept by PostgreSQL itself: an object goes with all that is assigned of it. A noun of a new kind is a column here
    pool_id             text GENERATED ALWAYS AS (CASE WHEN noun = 'pool' THEN object_id END) STORED REFERENCES pools ON DELETE CASCADE,
    network_id          text GENERATED ALWAYS AS (CASE WHEN noun = 'net' THEN object_id END) STORED REFERENCES networks ON DELETE CASCADE,
    PRIMARY KEY (noun, object_id, host_id),
    CONSTRAINT assignment_noun_known CHECK (num_nonnulls(pool_id, network_id) = 1)
);

INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, report_seq, reported_at)
SELECT 'pool', pool_id, host_id, CASE WHEN assigned THEN 'assign' ELSE 'release' END, status, observed_generation, report_seq, reported_at FROM pool_hosts
UNION ALL SELECT 'net', network_id, host_id, '', status, 0, report_seq, reported_at FROM network_hosts;

CREATE INDEX assignments_by_host ON assignments (host_id);
CREATE INDEX assignments_by_pool ON assignments (pool_id) WHERE pool_id IS NOT NULL;
CREATE INDEX assignments_by_network ON assignments (network_id) WHERE network_id IS NOT NULL;
DROP TABLE pool_hosts, network_hosts;
ANALYZE assignments;

-- What assignments are of. A new noun is a line here.
CREATE VIEW objects AS
SELECT 'pool' AS noun, id, name, generation FROM pools
UNION ALL SELECT 'net', id, name, generation FROM networks;

-- leads_out is true of bridges, and of libvirt's networks that hand on a bridge or a device of the host.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION leads_out(network text, kind text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT kind = 'bridge' OR EXISTS (SELECT 1 FROM assignments a
        WHERE a.network_id = network AND a.status->>'forward' IN ('bridge', 'vepa', 'private', 'passthrough', 'hostdev'))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_empty_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Of two hosts that release at the same moment, the second must see that the first is gone.
    PERFORM 1 FROM pools p WHERE p.id = OLD.pool_id FOR UPDATE;
    DELETE FROM pools p WHERE p.id = OLD.pool_id AND p.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.pool_id = p.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER drop_empty_pool AFTER DELETE ON assignments FOR EACH ROW WHEN (OLD.pool_id IS NOT NULL) EXECUTE FUNCTION drop_empty_pool();

-- Key: that of the object, as for what people change of it.
-- +goose StatementBegin
CREATE FUNCTION announce_assignment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    PERFORM pg_notify('quantix', r.noun || ':' || r.object_id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON assignments FOR EACH ROW EXECUTE FUNCTION announce_assignment();

-- The two that told of many tables tell of what still calls them.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN PERFORM pg_notify('quantix', 'vm:' || r.id);
        WHEN 'hosts' THEN PERFORM pg_notify('quantix', 'host:' || r.id);
        WHEN 'found_vms' THEN PERFORM pg_notify('quantix', 'host:' || r.host_id);
        WHEN 'pools' THEN PERFORM pg_notify('quantix', 'pool:' || r.id);
        WHEN 'projects' THEN PERFORM pg_notify('quantix', 'projects');
    END CASE;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announce_to_project() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN PERFORM pg_notify('quantix', 'vms:' || r.project_id);
        WHEN 'projects' THEN PERFORM pg_notify('quantix', 'project:' || r.id);
    END CASE;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- A card names its network by id. Networks that only specs name become rows, so that no card loses its own.
INSERT INTO networks (id, name, kind)
SELECT gen_random_uuid()::text, n.name, n.kind FROM (
    SELECT DISTINCT COALESCE(c->>'bridge', c->>'network') AS name, CASE WHEN c ? 'bridge' THEN 'bridge' ELSE 'libvirt' END AS kind
    FROM vms v CROSS JOIN jsonb_path_query(v.spec, '$.nics[*]') AS c) n
WHERE n.name IS NOT NULL ON CONFLICT (kind, name) DO NOTHING;

-- Nothing changes that anybody sees or that is found, so no trigger need look at each VM; and to make an index anew costs less than
-- to bring 100,000 changes into it.
ALTER TABLE vms DISABLE TRIGGER USER;
-- +goose StatementBegin
DO $$
DECLARE definitions text[]; name text; definition text;
BEGIN
    SELECT array_agg(pg_get_indexdef(i.indexrelid)) INTO definitions FROM pg_index i
    WHERE i.indrelid = 'vms'::regclass AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid);
    FOR name IN SELECT i.indexrelid::regclass FROM pg_index i
        WHERE i.indrelid = 'vms'::regclass AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)
    LOOP
        EXECUTE 'DROP INDEX ' || name;
    END LOOP;
    UPDATE vms v SET spec = jsonb_set(v.spec, '{nics}', n.nics) FROM (
        SELECT o.id, jsonb_agg(CASE WHEN w.id IS NULL THEN c.nic ELSE c.nic - 'network' - 'bridge' || jsonb_build_object('networkId', w.id) END ORDER BY c.place) AS nics
        FROM vms o
        CROSS JOIN jsonb_path_query_array(o.spec, 'strict $.nics[*]', silent => true) AS cards
        CROSS JOIN jsonb_array_elements(cards) WITH ORDINALITY AS c (nic, place)
        LEFT JOIN networks w ON w.name = COALESCE(c.nic->>'bridge', c.nic->>'network') AND w.kind = CASE WHEN c.nic ? 'bridge' THEN 'bridge' ELSE 'libvirt' END
        GROUP BY o.id) n
    WHERE n.id = v.id;
    FOREACH definition IN ARRAY definitions LOOP
        EXECUTE definition;
    END LOOP;
END $$;
-- +goose StatementEnd
ALTER TABLE vms ENABLE TRIGGER USER;
