-- +goose Up
-- A VM in the recycle bin is deleted, but its domain and disks stay on its host until purge_at. deleted_at is set too, so
-- that the VM gets no jobs and no attention. See ADR 109.
ALTER TABLE vms
    ADD COLUMN recycled_at timestamptz,                       -- NULL: not in the recycle bin
    ADD COLUMN recycled_by text NOT NULL DEFAULT '',
    ADD COLUMN purge_at    timestamptz,                       -- when the VM is deleted with its disks
    ADD COLUMN bin_counted boolean NOT NULL DEFAULT true;     -- in the recycle bin, the disks count towards the quota
CREATE INDEX vms_recycled ON vms (recycled_at, id) WHERE recycled_at IS NOT NULL;
CREATE INDEX vms_recycled_of_project ON vms (project_id) WHERE recycled_at IS NOT NULL;
CREATE INDEX vms_to_purge ON vms (purge_at, id) WHERE recycled_at IS NOT NULL;

-- The name of a VM in the recycle bin is free for another VM.
ALTER TABLE vms DROP CONSTRAINT vm_name_taken;
-- It is no partial index, because cached plans would read one whole for each query of VMs outside the recycle bin.
CREATE UNIQUE INDEX vm_name_taken ON vms (project_id, name, (CASE WHEN recycled_at IS NULL THEN '' ELSE id END));

-- Settings of the recycle bin: bin.Settings. The row without a project is the fleet's; NULL in a project's row means the
-- fleet's value. The bin of an existing installation stays off, because its users rely on the space of deleted VMs.
CREATE TABLE bin_settings (
    project_id text REFERENCES projects ON DELETE CASCADE,
    days       integer,
    counted    boolean,
    CONSTRAINT bin_settings_once UNIQUE NULLS NOT DISTINCT (project_id)
);
INSERT INTO bin_settings (days, counted) SELECT CASE WHEN EXISTS (SELECT FROM hosts) THEN 0 ELSE 7 END, true;

-- in_bin is what follows the name of a VM in texts about what uses an object.
CREATE FUNCTION in_bin(recycled timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN recycled IS NULL THEN '' ELSE ' (in the recycle bin)' END $$;

-- +goose StatementBegin
-- heard of a VM in the recycle bin is "recycled", which is no phase: lists and counters leave the VM out.
CREATE OR REPLACE FUNCTION keep_phase() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE acted boolean := NEW.deleted_at IS NULL AND NEW.status IS NOT NULL AND NEW.observed_generation > 0;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.ignored_drift <> '[]' AND (OLD.name <> NEW.name OR OLD.spec IS DISTINCT FROM NEW.spec) THEN
        NEW.ignored_drift := without_ignored(NEW.ignored_drift, ARRAY(
            SELECT i->>'field' FROM jsonb_array_elements(NEW.ignored_drift) AS i
            WHERE i->>'field' = 'name' AND OLD.name <> NEW.name
               OR OLD.spec #> string_to_array(i->>'field', '.') IS DISTINCT FROM NEW.spec #> string_to_array(i->>'field', '.')));
    END IF;
    NEW.heard := CASE WHEN NEW.recycled_at IS NOT NULL THEN 'recycled'
        ELSE vm_phase(NEW.ordered, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, true) END;
    NEW.drifted := acted AND COALESCE(NEW.status->'drift' NOT IN ('null', '[]'), false) AND open_drift(NEW.status->'drift', NEW.ignored_drift);
    NEW.attention := vm_in_need(NEW.ordered, NEW.spec, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, NEW.elsewhere)
        OR acted AND (NEW.expiry <> '' OR NEW.misplaced <> '{}' OR NEW.drifted);
    RETURN NEW;
END $$;

-- drifted_vms as before. A VM in the recycle bin is drifted until its host has powered it off. A failed attempt is repeated
-- after 10 minutes. A guest that somebody starts after a successful one keeps running.
CREATE OR REPLACE FUNCTION drifted_vms() RETURNS SETOF text LANGUAGE plpgsql STABLE ROWS 100
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT v.id FROM vms v JOIN host_sessions s ON s.host_id = v.host_id
    WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL)
      AND (v.recycled_at IS NULL OR (v.generation > v.observed_generation OR v.status->>'power' IN ('running', 'paused'))
           AND COALESCE((SELECT CASE WHEN t.state = 'done' THEN v.generation > v.observed_generation ELSE t.ended_at < now() - interval '10 minutes' END
                         FROM tasks t WHERE t.subject = 'vm:' || v.id AND t.kind = 'vm.recycle' ORDER BY t.id DESC LIMIT 1),
                        v.generation > v.observed_generation))
      AND s.looked_at > now() - s.fresh_for AND s.looked_at <= now() + interval '5 seconds'
      AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
      AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id
                      AND j.state IN ('queued', 'running') AND j.task_id IS NOT NULL)
    LIMIT 500;
END $$;

-- log_vm as before. For readers of events, a VM ends when it comes into the recycle bin, and begins when it is restored.
CREATE OR REPLACE FUNCTION log_vm() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    act text := event_action(TG_OP);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.name, OLD.labels, OLD.description, OLD.spec, OLD.generation, OLD.observed_generation, OLD.host_id, OLD.deleted_at, OLD.ordered, OLD.elsewhere, OLD.protected,
            OLD.lock, OLD.expires_at, OLD.expiry_stops, OLD.expiry, OLD.misplaced, OLD.schedule_trouble, OLD.ignored_drift, OLD.adoption)
           IS NOT DISTINCT FROM
           (NEW.name, NEW.labels, NEW.description, NEW.spec, NEW.generation, NEW.observed_generation, NEW.host_id, NEW.deleted_at, NEW.ordered, NEW.elsewhere, NEW.protected,
            NEW.lock, NEW.expires_at, NEW.expiry_stops, NEW.expiry, NEW.misplaced, NEW.schedule_trouble, NEW.ignored_drift, NEW.adoption)
           AND steady_status(OLD.status) IS NOT DISTINCT FROM steady_status(NEW.status) THEN
            RETURN NULL;
        END IF;
        IF NEW.recycled_at IS NOT NULL THEN
            act := CASE WHEN OLD.recycled_at IS NULL THEN 'deleted' ELSE '' END;
        ELSIF OLD.recycled_at IS NOT NULL THEN
            act := 'created';
        END IF;
    ELSIF r.recycled_at IS NOT NULL THEN
        act := '';
    END IF;
    IF act <> '' THEN
        INSERT INTO events (type, action, object_id, name, project_id) VALUES ('vm', act, r.id, r.name, r.project_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- volume_held as before. It says which VMs are in the recycle bin.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION volume_held(pool text, volume text, host text) RETURNS json LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    disk jsonb := jsonb_build_object('poolId', pool, 'volume', volume);
    image text := (SELECT i.name FROM image_copies p JOIN image_versions v ON v.id = p.version_id JOIN images i ON i.id = v.image_id
                   WHERE p.pool_id = volume_held.pool AND p.volume = volume_held.volume AND (p.host_id IS NULL OR volume_held.host = '' OR p.host_id = volume_held.host) LIMIT 1);
BEGIN
    RETURN json_strip_nulls(json_build_object(
        'disk', (SELECT (array_agg(v.name || in_bin(v.recycled_at)))[1] FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(disk))),
        'drive', (SELECT (array_agg(v.name || in_bin(v.recycled_at)))[1] FROM vms v WHERE spec_reads(v.spec, pool, volume)),
        'making', (SELECT (array_agg(v.name))[1] FROM vms v CROSS JOIN LATERAL jsonb_array_elements(v.spec->'disks') d
                   WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('image', disk)))
                     AND v.observed_generation < v.generation AND v.deleted_at IS NULL AND d->'image' @> disk
                     AND NOT EXISTS (SELECT 1 FROM made_disks m WHERE m.vm_id = v.id AND m.pool_id = d->>'poolId' AND m.volume = d->>'volume')),
        'published', image IS NOT NULL OR NULL, 'image', image));
END $$;
-- +goose StatementEnd

-- vms: 1; 0 in the recycle bin, where at most disks and snapshots count.
ALTER TABLE vm_use ADD COLUMN vms bigint NOT NULL DEFAULT 1;
DROP INDEX vm_use_by_project;
CREATE INDEX vm_use_by_project ON vm_use (project_id)
    INCLUDE (cpus, memory_mib, disk_bytes, nics, host_devices, gpus, running, snapshots, snapshot_bytes, pools, vms);

-- +goose StatementBegin
-- vm_use_of as before, for VMs in the recycle bin too.
CREATE OR REPLACE FUNCTION vm_use_of(v vms) RETURNS vm_use LANGUAGE plpgsql STABLE AS $$
DECLARE
    u vm_use;
    d jsonb;
    n bigint;
BEGIN
    u.vm_id := v.id;
    u.project_id := v.project_id;
    u.vms := (v.recycled_at IS NULL)::int;
    u.cpus := COALESCE((v.spec->>'cpus')::bigint, 0) * u.vms;
    u.memory_mib := COALESCE((v.spec->>'memoryMiB')::bigint, 0) * u.vms;
    u.nics := 0;
    u.host_devices := 0;
    u.gpus := 0;
    u.running := 0;
    u.disk_bytes := 0;
    u.snapshots := 0;
    u.snapshot_bytes := 0;
    u.pools := '{}';
    IF u.vms = 0 AND NOT v.bin_counted THEN
        RETURN u;
    END IF;
    FOR d IN SELECT jsonb_array_elements(CASE jsonb_typeof(v.spec->'disks') WHEN 'array' THEN v.spec->'disks' ELSE '[]' END) LOOP
        n := COALESCE((d->>'sizeBytes')::bigint, 0);
        IF n = 0 THEN
            SELECT LEAST(GREATEST((r->>'sizeBytes')::numeric, 0), 1::bigint << 53)::bigint INTO n
            FROM jsonb_array_elements(CASE jsonb_typeof(v.status->'disks') WHEN 'array' THEN v.status->'disks' ELSE '[]' END) r
            WHERE r->'volume' = jsonb_build_object('poolId', d->'poolId', 'volume', d->'volume') LIMIT 1;
        END IF;
        IF COALESCE(n, 0) = 0 AND d ? 'imageId' THEN
            SELECT i.capacity_bytes INTO n FROM image_versions i
            WHERE i.image_id = d->>'imageId' AND (i.id = d->>'versionId' OR NOT d ? 'versionId') ORDER BY i.number DESC LIMIT 1;
        END IF;
        u.disk_bytes := u.disk_bytes + COALESCE(n, 0);
        u.pools := u.pools || jsonb_build_object(COALESCE(d->>'poolId', ''), COALESCE((u.pools->>(d->>'poolId'))::bigint, 0) + COALESCE(n, 0));
    END LOOP;
    SELECT count(*), LEAST(COALESCE(sum(GREATEST((s->>'bytes')::numeric, 0)), 0), 1::bigint << 53)::bigint
        INTO u.snapshots, u.snapshot_bytes
    FROM jsonb_path_query(v.status, 'lax $.snapshots.snapshots[*]') s WHERE NOT COALESCE((s->>'deleted')::boolean, false);
    IF u.vms = 0 THEN
        RETURN u;
    END IF;
    u.nics := CASE jsonb_typeof(v.spec->'nics') WHEN 'array' THEN jsonb_array_length(v.spec->'nics') ELSE 0 END;
    u.host_devices := CASE jsonb_typeof(v.spec->'hostDevices') WHEN 'array' THEN jsonb_array_length(v.spec->'hostDevices') ELSE 0 END;
    IF u.host_devices > 0 THEN
        SELECT count(*) INTO u.gpus FROM jsonb_array_elements(v.spec->'hostDevices') g
        WHERE g->>'device' LIKE 'mdev/%' OR EXISTS (
            SELECT 1 FROM hosts h CROSS JOIN LATERAL jsonb_path_query(h.status, 'lax $.inventory.devices[*]') r
            WHERE h.id = COALESCE(NULLIF(g->>'hostId', ''), v.host_id) AND r->>'device' = g->>'device' AND r->>'class' LIKE '0x03%');
    END IF;
    u.running := CASE WHEN v.ordered <> '' THEN (v.ordered <> 'stopped')::int
                      WHEN v.observed_generation = 0 THEN (COALESCE(v.spec->>'power', 'stopped') IN ('running', 'paused'))::int
                      ELSE (COALESCE(v.status->>'power', '') IN ('running', 'paused'))::int END;
    RETURN u;
END $$;

CREATE OR REPLACE FUNCTION project_use(project text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    WITH u AS MATERIALIZED (
        SELECT w.vms, w.cpus, w.memory_mib, w.disk_bytes, w.nics, w.host_devices, w.gpus, w.running, w.snapshots, w.snapshot_bytes, w.pools
        FROM vm_use w WHERE w.project_id = project)
    SELECT jsonb_build_object(
        'vms', COALESCE(sum(u.vms), 0), 'runningVms', COALESCE(sum(u.running), 0), 'cpus', COALESCE(sum(u.cpus), 0), 'memoryMiB', COALESCE(sum(u.memory_mib), 0),
        'diskBytes', COALESCE(sum(u.disk_bytes), 0), 'nics', COALESCE(sum(u.nics), 0), 'hostDevices', COALESCE(sum(u.host_devices), 0),
        'gpus', COALESCE(sum(u.gpus), 0), 'snapshots', COALESCE(sum(u.snapshots), 0), 'snapshotBytes', COALESCE(sum(u.snapshot_bytes), 0),
        'images', (SELECT count(*) FROM images i WHERE i.project_id = project AND i.template_id IS NULL)
                + (SELECT count(*) FROM templates t WHERE t.project_id = project),
        'imageBytes', (SELECT COALESCE(sum((SELECT sum(x.capacity_bytes) FROM image_versions x WHERE x.image_id = i.id)), 0)
                       FROM images i WHERE i.project_id = project)
                    + (SELECT COALESCE(sum((SELECT sum(x.capacity_bytes) FROM image_versions x WHERE x.image_id = i.id)), 0)
                       FROM templates t JOIN images i ON i.template_id = t.id WHERE t.project_id = project AND i.project_id IS DISTINCT FROM project),
        'exports', (SELECT count(*) FROM exports e WHERE e.project_id = project),
        'pools', COALESCE((SELECT jsonb_object_agg(p.key, p.bytes) FROM (
                     SELECT x.key, sum(x.value::bigint) AS bytes FROM u w CROSS JOIN LATERAL jsonb_each_text(w.pools) x GROUP BY x.key) p), '{}'))
    FROM u
$$;

-- keep_vm_use as before. A restore from the recycle bin is a request that makes the project use more.
CREATE OR REPLACE FUNCTION keep_vm_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was vm_use;
    now_uses vm_use := vm_use_of(NEW);
    asked boolean := TG_OP = 'INSERT' OR OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered AND NEW.ordered IN ('running', 'paused')
        OR OLD.recycled_at IS NOT NULL AND NEW.recycled_at IS NULL;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT * INTO was FROM vm_use u WHERE u.vm_id = NEW.id;
        IF was IS NOT DISTINCT FROM now_uses THEN
            RETURN NULL;
        END IF;
    END IF;
    INSERT INTO vm_use SELECT now_uses.* ON CONFLICT (vm_id) DO UPDATE SET
        project_id = EXCLUDED.project_id, cpus = EXCLUDED.cpus, memory_mib = EXCLUDED.memory_mib, disk_bytes = EXCLUDED.disk_bytes, nics = EXCLUDED.nics,
        host_devices = EXCLUDED.host_devices, gpus = EXCLUDED.gpus, running = EXCLUDED.running, snapshots = EXCLUDED.snapshots,
        snapshot_bytes = EXCLUDED.snapshot_bytes, pools = EXCLUDED.pools, vms = EXCLUDED.vms;
    IF asked AND COALESCE(current_setting('quantix.quota', true), '') <> 'off' AND EXISTS (SELECT 1 FROM project_quotas q WHERE q.project_id = NEW.project_id) THEN
        PERFORM check_quota(NEW.project_id, jsonb_build_object(
            'vms', now_uses.vms - COALESCE(was.vms, 0), 'runningVms', now_uses.running - COALESCE(was.running, 0),
            'cpus', now_uses.cpus - COALESCE(was.cpus, 0), 'memoryMiB', now_uses.memory_mib - COALESCE(was.memory_mib, 0),
            'diskBytes', now_uses.disk_bytes - COALESCE(was.disk_bytes, 0), 'nics', now_uses.nics - COALESCE(was.nics, 0),
            'hostDevices', now_uses.host_devices - COALESCE(was.host_devices, 0), 'gpus', now_uses.gpus - COALESCE(was.gpus, 0),
            'pools', (SELECT COALESCE(jsonb_object_agg(p.key, p.value::bigint - COALESCE((was.pools->>p.key)::bigint, 0)), '{}') FROM jsonb_each_text(now_uses.pools) p))
            || CASE WHEN OLD.recycled_at IS NOT NULL AND NEW.recycled_at IS NULL
                    THEN jsonb_build_object('snapshots', now_uses.snapshots - was.snapshots, 'snapshotBytes', now_uses.snapshot_bytes - was.snapshot_bytes) ELSE '{}' END, false);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION recount_vm_use(after text, most integer, OUT last text, OUT wrong text[]) LANGUAGE sql AS $$
    WITH page AS MATERIALIZED (SELECT v.id FROM vms v WHERE v.id > after ORDER BY v.id LIMIT most),
    differing AS MATERIALIZED (
        SELECT a.* FROM page p JOIN vms v ON v.id = p.id CROSS JOIN LATERAL vm_use_of(v) a LEFT JOIN vm_use u ON u.vm_id = v.id
        WHERE to_jsonb(u) IS DISTINCT FROM to_jsonb(a)),
    mended AS (
        INSERT INTO vm_use SELECT d.* FROM differing d ON CONFLICT (vm_id) DO UPDATE SET
            project_id = EXCLUDED.project_id, cpus = EXCLUDED.cpus, memory_mib = EXCLUDED.memory_mib, disk_bytes = EXCLUDED.disk_bytes, nics = EXCLUDED.nics,
            host_devices = EXCLUDED.host_devices, gpus = EXCLUDED.gpus, running = EXCLUDED.running, snapshots = EXCLUDED.snapshots,
            snapshot_bytes = EXCLUDED.snapshot_bytes, pools = EXCLUDED.pools, vms = EXCLUDED.vms
        RETURNING project_id)
    SELECT (SELECT max(p.id) FROM page p), ARRAY(SELECT DISTINCT m.project_id FROM mended m)
$$;
-- +goose StatementEnd

DROP TRIGGER keep_vm_use_change ON vms;
CREATE TRIGGER keep_vm_use_change AFTER UPDATE ON vms FOR EACH ROW
    WHEN (OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered OR OLD.project_id <> NEW.project_id
        OR OLD.observed_generation = 0 AND NEW.observed_generation > 0 OR OLD.status->'power' IS DISTINCT FROM NEW.status->'power'
        OR OLD.status->'snapshots' IS DISTINCT FROM NEW.status->'snapshots' OR OLD.status->'disks' IS DISTINCT FROM NEW.status->'disks'
        OR OLD.recycled_at IS DISTINCT FROM NEW.recycled_at OR OLD.bin_counted <> NEW.bin_counted)
    EXECUTE FUNCTION keep_vm_use();
