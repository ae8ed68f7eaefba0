-- +goose Up
-- Limits of what a project may use: see quota.Quota. A project without a row has no limits.
CREATE TABLE project_quotas (
    project_id text PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
    limits     jsonb NOT NULL,                                  -- {"cpus": {"hard": 8, "soft": 6}, "pools": {"<id>": {"hard": 1}}}
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- What each VM uses of its project's quota. The triggers below keep the rows. No row is shared by several VMs, so
-- transactions about different VMs never wait for each other here.
CREATE TABLE vm_use (
    vm_id          text COLLATE "C" PRIMARY KEY REFERENCES vms ON DELETE CASCADE,
    project_id     text NOT NULL,
    cpus           bigint NOT NULL,
    memory_mib     bigint NOT NULL,
    disk_bytes     bigint NOT NULL,                             -- virtual sizes
    nics           bigint NOT NULL,
    host_devices   bigint NOT NULL,
    gpus           bigint NOT NULL,
    running        bigint NOT NULL,                             -- 1: runs, is paused, or shall start
    snapshots      bigint NOT NULL,
    snapshot_bytes bigint NOT NULL,
    pools          jsonb NOT NULL                               -- virtual sizes by pool: {"<id>": 10737418240}
);
CREATE INDEX vm_use_by_project ON vm_use (project_id)
    INCLUDE (cpus, memory_mib, disk_bytes, nics, host_devices, gpus, running, snapshots, snapshot_bytes, pools);

CREATE INDEX images_by_project ON images (project_id) WHERE project_id IS NOT NULL;

-- Snapshots that are being taken, for quota_excess.
CREATE INDEX jobs_taking_snapshots ON jobs (subject) WHERE kind = 'vm.snapshot' AND state IN ('queued', 'running');

-- vm_use_of returns what a VM uses. A disk without a requested size counts with the size that its host reports, or with
-- its image's size. Numbers of a host's report are bounded, so that no sum overflows.
-- +goose StatementBegin
CREATE FUNCTION vm_use_of(v vms) RETURNS vm_use LANGUAGE plpgsql STABLE AS $$
DECLARE
    u vm_use;
    d jsonb;
    n bigint;
BEGIN
    u.vm_id := v.id;
    u.project_id := v.project_id;
    u.cpus := COALESCE((v.spec->>'cpus')::bigint, 0);
    u.memory_mib := COALESCE((v.spec->>'memoryMiB')::bigint, 0);
    u.disk_bytes := 0;
    u.pools := '{}';
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
    u.nics := CASE jsonb_typeof(v.spec->'nics') WHEN 'array' THEN jsonb_array_length(v.spec->'nics') ELSE 0 END;
    u.host_devices := CASE jsonb_typeof(v.spec->'hostDevices') WHEN 'array' THEN jsonb_array_length(v.spec->'hostDevices') ELSE 0 END;
    u.gpus := 0;
    IF u.host_devices > 0 THEN
        SELECT count(*) INTO u.gpus FROM jsonb_array_elements(v.spec->'hostDevices') g
        WHERE g->>'device' LIKE 'mdev/%' OR EXISTS (
            SELECT 1 FROM hosts h CROSS JOIN LATERAL jsonb_path_query(h.status, 'lax $.inventory.devices[*]') r
            WHERE h.id = COALESCE(NULLIF(g->>'hostId', ''), v.host_id) AND r->>'device' = g->>'device' AND r->>'class' LIKE '0x03%');
    END IF;
    u.running := CASE WHEN v.ordered <> '' THEN (v.ordered <> 'stopped')::int
                      WHEN v.observed_generation = 0 THEN (COALESCE(v.spec->>'power', 'stopped') IN ('running', 'paused'))::int
                      ELSE (COALESCE(v.status->>'power', '') IN ('running', 'paused'))::int END;
    SELECT count(*), LEAST(COALESCE(sum(GREATEST((s->>'bytes')::numeric, 0)), 0), 1::bigint << 53)::bigint
        INTO u.snapshots, u.snapshot_bytes
    FROM jsonb_path_query(v.status, 'lax $.snapshots.snapshots[*]') s WHERE NOT COALESCE((s->>'deleted')::boolean, false);
    RETURN u;
END $$;
-- +goose StatementEnd

-- project_use returns what a project uses: {"vms": 3, "cpus": 8, …, "pools": {"<id>": 10737418240}}.
-- +goose StatementBegin
CREATE FUNCTION project_use(project text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    WITH u AS MATERIALIZED (
        SELECT w.cpus, w.memory_mib, w.disk_bytes, w.nics, w.host_devices, w.gpus, w.running, w.snapshots, w.snapshot_bytes, w.pools
        FROM vm_use w WHERE w.project_id = project)
    SELECT jsonb_build_object(
        'vms', count(*), 'runningVms', COALESCE(sum(u.running), 0), 'cpus', COALESCE(sum(u.cpus), 0), 'memoryMiB', COALESCE(sum(u.memory_mib), 0),
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
-- +goose StatementEnd

-- quota_excess returns the limits that a project exceeds with what grows; NULL: none. grown has what is added:
-- {"cpus": 2, "pools": {"<id>": 1024}}. pending says that project_use does not have it yet. Snapshots that are being taken
-- count. The lock makes concurrent growth of a project wait, and each query afterwards sees what others have committed.
-- An exceeded limit: {"key": "cpus", "pool": "", "limit": 8, "used": 7, "more": 4}.
-- +goose StatementBegin
CREATE FUNCTION quota_excess(project text, grown jsonb, pending boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    may  jsonb;
    used jsonb;
    over jsonb;
BEGIN
    SELECT q.limits INTO may FROM project_quotas q WHERE q.project_id = project FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    used := project_use(project);
    IF grown ? 'snapshots' THEN
        used := jsonb_set(used, '{snapshots}', to_jsonb((used->>'snapshots')::bigint + (
            SELECT count(*) FROM jobs j WHERE j.kind = 'vm.snapshot' AND j.role <> 'snapshot' AND j.state IN ('queued', 'running')
              AND (SELECT u.project_id FROM vm_use u WHERE u.vm_id = substr(j.subject, 4)) = project)));
    END IF;
    SELECT jsonb_agg(jsonb_build_object('key', c.key, 'pool', c.pool, 'limit', c.hard,
                                        'used', c.used - CASE WHEN pending THEN 0 ELSE c.more END, 'more', c.more) ORDER BY c.key, c.pool) INTO over
    FROM (
        SELECT g.key, '' AS pool, (may #>> ARRAY[g.key, 'hard'])::numeric AS hard, (used->>g.key)::numeric AS used, g.value::text::numeric AS more
        FROM jsonb_each(grown - 'pools') g
        UNION ALL
        SELECT 'pools', g.key, (may #>> ARRAY['pools', g.key, 'hard'])::numeric, COALESCE((used #>> ARRAY['pools', g.key])::numeric, 0), g.value::text::numeric
        FROM jsonb_each(COALESCE(grown->'pools', '{}')) g
    ) c WHERE c.more > 0 AND c.used + CASE WHEN pending THEN c.more ELSE 0 END > c.hard;
    RETURN over;
END $$;
-- +goose StatementEnd

-- check_quota raises QX001 with the result of quota_excess as the error's detail.
-- +goose StatementBegin
CREATE FUNCTION check_quota(project text, grown jsonb, pending boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    over jsonb := quota_excess(project, grown, pending);
BEGIN
    IF over IS NOT NULL THEN
        RAISE EXCEPTION 'quota exceeded' USING ERRCODE = 'QX001', DETAIL = over::text;
    END IF;
END $$;
-- +goose StatementEnd

-- keep_vm_use keeps vm_use, and checks the quota if a person makes the VM use more. What a host reports is never refused:
-- transactions about reports and results of hosts set quantix.quota to "off".
-- +goose StatementBegin
CREATE FUNCTION keep_vm_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was vm_use;
    now_uses vm_use := vm_use_of(NEW);
    asked boolean := TG_OP = 'INSERT' OR OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered AND NEW.ordered IN ('running', 'paused');
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
        snapshot_bytes = EXCLUDED.snapshot_bytes, pools = EXCLUDED.pools;
    IF asked AND COALESCE(current_setting('quantix.quota', true), '') <> 'off' AND EXISTS (SELECT 1 FROM project_quotas q WHERE q.project_id = NEW.project_id) THEN
        PERFORM check_quota(NEW.project_id, jsonb_build_object(
            'vms', CASE WHEN was.vm_id IS NULL THEN 1 ELSE 0 END, 'runningVms', now_uses.running - COALESCE(was.running, 0),
            'cpus', now_uses.cpus - COALESCE(was.cpus, 0), 'memoryMiB', now_uses.memory_mib - COALESCE(was.memory_mib, 0),
            'diskBytes', now_uses.disk_bytes - COALESCE(was.disk_bytes, 0), 'nics', now_uses.nics - COALESCE(was.nics, 0),
            'hostDevices', now_uses.host_devices - COALESCE(was.host_devices, 0), 'gpus', now_uses.gpus - COALESCE(was.gpus, 0),
            'pools', (SELECT COALESCE(jsonb_object_agg(p.key, p.value::bigint - COALESCE((was.pools->>p.key)::bigint, 0)), '{}') FROM jsonb_each_text(now_uses.pools) p)), false);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

INSERT INTO vm_use SELECT u.* FROM vms v CROSS JOIN LATERAL vm_use_of(v) u;

CREATE TRIGGER keep_vm_use AFTER INSERT ON vms FOR EACH ROW EXECUTE FUNCTION keep_vm_use();
CREATE TRIGGER keep_vm_use_change AFTER UPDATE ON vms FOR EACH ROW
    WHEN (OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered OR OLD.project_id <> NEW.project_id
        OR OLD.observed_generation = 0 AND NEW.observed_generation > 0 OR OLD.status->'power' IS DISTINCT FROM NEW.status->'power'
        OR OLD.status->'snapshots' IS DISTINCT FROM NEW.status->'snapshots' OR OLD.status->'disks' IS DISTINCT FROM NEW.status->'disks')
    EXECUTE FUNCTION keep_vm_use();

-- check_object_quota checks the quota when a project gets an image, a template, a version of one, an export or a
-- snapshot. Temporary snapshots, which a task takes for its own use, are free.
-- +goose StatementBegin
CREATE FUNCTION check_object_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    project text;
    grown jsonb;
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'jobs' THEN
            SELECT v.project_id INTO project FROM vms v WHERE v.id = substr(NEW.subject, 4);
            grown := '{"snapshots": 1, "snapshotBytes": 1}';
        WHEN 'images' THEN
            project := CASE WHEN NEW.template_id IS NULL THEN NEW.project_id END;
            grown := '{"images": 1}';
        WHEN 'templates' THEN
            project := NEW.project_id;
            grown := '{"images": 1}';
        WHEN 'exports' THEN
            project := NEW.project_id;
            grown := '{"exports": 1}';
        ELSE
            SELECT COALESCE(i.project_id, t.project_id) INTO project FROM images i LEFT JOIN templates t ON t.id = i.template_id WHERE i.id = NEW.image_id;
            grown := jsonb_build_object('imageBytes', NEW.capacity_bytes);
    END CASE;
    IF project IS NOT NULL AND COALESCE(current_setting('quantix.quota', true), '') <> 'off' THEN
        PERFORM check_quota(project, grown, false);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_quota AFTER INSERT ON images FOR EACH ROW EXECUTE FUNCTION check_object_quota();
CREATE TRIGGER check_quota AFTER INSERT ON templates FOR EACH ROW EXECUTE FUNCTION check_object_quota();
CREATE TRIGGER check_quota AFTER INSERT ON image_versions FOR EACH ROW EXECUTE FUNCTION check_object_quota();
CREATE TRIGGER check_quota AFTER INSERT ON jobs FOR EACH ROW WHEN (NEW.kind = 'vm.snapshot' AND NEW.role <> 'snapshot')
    EXECUTE FUNCTION check_object_quota();
CREATE TRIGGER check_quota AFTER INSERT ON exports FOR EACH ROW EXECUTE FUNCTION check_object_quota();

-- recount_vm_use corrects the rows of vm_use of the first VMs after an ID that differ from what the VMs use. It returns
-- the last of these VMs, NULL if there are none, and the projects with wrong rows.
-- +goose StatementBegin
CREATE FUNCTION recount_vm_use(after text, most integer, OUT last text, OUT wrong text[]) LANGUAGE sql AS $$
    WITH page AS MATERIALIZED (SELECT v.id FROM vms v WHERE v.id > after ORDER BY v.id LIMIT most),
    differing AS MATERIALIZED (
        SELECT a.* FROM page p JOIN vms v ON v.id = p.id CROSS JOIN LATERAL vm_use_of(v) a LEFT JOIN vm_use u ON u.vm_id = v.id
        WHERE to_jsonb(u) IS DISTINCT FROM to_jsonb(a)),
    mended AS (
        INSERT INTO vm_use SELECT d.* FROM differing d ON CONFLICT (vm_id) DO UPDATE SET
            project_id = EXCLUDED.project_id, cpus = EXCLUDED.cpus, memory_mib = EXCLUDED.memory_mib, disk_bytes = EXCLUDED.disk_bytes, nics = EXCLUDED.nics,
            host_devices = EXCLUDED.host_devices, gpus = EXCLUDED.gpus, running = EXCLUDED.running, snapshots = EXCLUDED.snapshots,
            snapshot_bytes = EXCLUDED.snapshot_bytes, pools = EXCLUDED.pools
        RETURNING project_id)
    SELECT (SELECT max(p.id) FROM page p), ARRAY(SELECT DISTINCT m.project_id FROM mended m)
$$;
-- +goose StatementEnd

-- announce_quota wakes pages of the project, and records the change for readers of events.
-- +goose StatementBegin
CREATE FUNCTION announce_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    project text := COALESCE(NEW.project_id, OLD.project_id);
    told text := tell('projects', 'project:' || project);
BEGIN
    INSERT INTO events (type, object_id, name, project_id) SELECT 'project', p.id, p.name, p.id FROM projects p WHERE p.id = project;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON project_quotas FOR EACH ROW EXECUTE FUNCTION announce_quota();
