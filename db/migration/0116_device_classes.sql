-- +goose Up
-- A device class is a named set of host devices. Projects that it is published to use its devices, and never see hosts.
CREATE TABLE device_classes (
    id          text PRIMARY KEY,
    name        text COLLATE "C" NOT NULL CONSTRAINT device_class_name_taken UNIQUE,
    description text NOT NULL DEFAULT '',
    gpu         boolean NOT NULL DEFAULT false, -- all of its devices are GPUs; otherwise none is
    generation  bigint NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- A device is in at most one class.
CREATE TABLE device_class_members (
    class_id text NOT NULL REFERENCES device_classes ON DELETE CASCADE,
    host_id  text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    device   text COLLATE "C" NOT NULL,
    CONSTRAINT device_class_member_once PRIMARY KEY (host_id, device)
);
CREATE INDEX device_class_members_by_class ON device_class_members (class_id);

-- Who may use a class. project_id NULL: every project.
CREATE TABLE device_class_grants (
    class_id   text NOT NULL REFERENCES device_classes ON DELETE CASCADE,
    project_id text REFERENCES projects ON DELETE CASCADE,
    granted_by text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT device_class_grant_once UNIQUE NULLS NOT DISTINCT (class_id, project_id)
);
CREATE INDEX device_class_grants_by_project ON device_class_grants (project_id) WHERE project_id IS NOT NULL;

-- The devices that placement chose for a VM's device classes. Rows of a host that the VM neither is on nor migrates to
-- count no more: see device_uses.
CREATE TABLE device_allocations (
    vm_id    text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    class_id text NOT NULL REFERENCES device_classes,
    host_id  text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    device   text COLLATE "C" NOT NULL,
    PRIMARY KEY (host_id, device, vm_id)
);
CREATE INDEX device_allocations_by_vm ON device_allocations (vm_id);
CREATE INDEX device_allocations_by_class ON device_allocations (class_id);

-- Allocations that count: on the VM's host, and on the host that the VM migrates to.
CREATE VIEW device_uses AS
SELECT a.vm_id, a.class_id, a.host_id, a.device FROM device_allocations a JOIN vms v ON v.id = a.vm_id
WHERE a.host_id = v.host_id OR EXISTS (
    SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.migrate' AND j.state IN ('queued', 'running') AND j.args->'migrate'->>'to' = a.host_id);

-- +goose StatementBegin
-- spec_with_devices returns the spec as the host gets it: with the allocated devices in place of the device classes.
CREATE FUNCTION spec_with_devices(spec jsonb, vm text, host text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE allocated jsonb;
BEGIN
    IF NOT spec ? 'deviceClasses' THEN
        RETURN spec;
    END IF;
    SELECT jsonb_agg(jsonb_build_object('hostId', a.host_id, 'device', a.device) ORDER BY a.device) INTO allocated
    FROM device_uses a WHERE a.vm_id = vm AND a.host_id = host;
    spec := spec - 'deviceClasses';
    IF allocated IS NULL THEN
        RETURN spec;
    END IF;
    RETURN jsonb_set(spec, '{hostDevices}', CASE jsonb_typeof(spec->'hostDevices') WHEN 'array' THEN spec->'hostDevices' ELSE '[]' END || allocated);
END $$;

-- work_of as before, with the allocated devices.
CREATE OR REPLACE FUNCTION work_of(subject text, host text) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF subject LIKE 'vm:%' THEN
        RETURN (SELECT json_build_object(
            'vm', json_build_object(
                'id', v.id, 'name', v.name, 'projectId', v.project_id, 'hostId', v.host_id, 'labels', v.labels, 'description', v.description,
                'generation', v.generation, 'observedGeneration', v.observed_generation, 'ordered', v.ordered, 'createdAt', v.created_at,
                'deletedAt', v.deleted_at, 'spec', spec_with_devices(v.spec, v.id, host)),
            'project', (SELECT o.name FROM projects o WHERE o.id = v.project_id),
            'mark', (SELECT m.mark FROM vm_marks m WHERE m.vm_id = v.id AND (v.host_id = host OR received.kind = 'vm.receive')),
            'made', (SELECT json_agg(json_build_object('poolId', m.pool_id, 'volume', m.volume) ORDER BY m.pool_id, m.volume)
                     FROM made_disks m WHERE m.vm_id = v.id),
            'networks', ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
                              WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}'))),
            'pools', (SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation,
                                                        'createdAt', p.created_at, 'deletedAt', p.deleted_at))
                      FROM pools p WHERE p.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.**.poolId') #>> '{}'))))
        FROM vms v LEFT JOIN LATERAL (
            SELECT r.kind FROM jobs r
            WHERE r.subject = 'vm:' || v.id AND r.host_id = host AND r.state IN ('queued', 'running') AND v.host_id <> host
              AND (r.kind = 'vm.receive' OR r.kind = 'vm.firmware.receive' AND r.args @> '{"migrate": {"definition": true}}')
            ORDER BY r.kind DESC LIMIT 1) received ON true
        WHERE v.id = substr(subject, 4) COLLATE "C" AND (v.host_id = host OR received.kind IS NOT NULL));
    ELSIF subject LIKE 'pool:%' THEN
        RETURN (SELECT json_build_object('pool', json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation,
                                                                   'createdAt', p.created_at, 'deletedAt', p.deleted_at))
                FROM pools p WHERE p.id = substr(subject, 6) COLLATE "default");
    ELSIF subject LIKE 'net:%' THEN
        RETURN (SELECT json_build_object('network', json_build_object('id', n.id, 'name', n.name, 'kind', n.kind, 'spec', n.spec, 'generation', n.generation,
                                                                      'createdAt', n.created_at, 'deletedAt', n.deleted_at))
                FROM networks n WHERE n.id = substr(subject, 5) COLLATE "default" AND n.spec IS NOT NULL);
    END IF;
    RETURN NULL;
END $$;

-- vm_use_of as before, with the devices of classes.
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
    FOR d IN SELECT jsonb_array_elements(CASE jsonb_typeof(v.spec->'deviceClasses') WHEN 'array' THEN v.spec->'deviceClasses' ELSE '[]' END) LOOP
        n := GREATEST(COALESCE((d->>'count')::bigint, 1), 1);
        u.host_devices := u.host_devices + n;
        IF EXISTS (SELECT 1 FROM device_classes c WHERE c.id = d->>'classId' AND c.gpu) THEN
            u.gpus := u.gpus + n;
        END IF;
    END LOOP;
    u.running := CASE WHEN v.ordered <> '' THEN (v.ordered <> 'stopped')::int
                      WHEN v.observed_generation = 0 THEN (COALESCE(v.spec->>'power', 'stopped') IN ('running', 'paused'))::int
                      ELSE (COALESCE(v.status->>'power', '') IN ('running', 'paused'))::int END;
    RETURN u;
END $$;

-- log_device_class_grant logs a grant as a change of the class, unless the class was deleted with it.
CREATE FUNCTION log_device_class_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    INSERT INTO events (type, object_id, name) SELECT 'device-class', c.id, c.name FROM device_classes c WHERE c.id = r.class_id;
    RETURN NULL;
END $$;

-- log_device_class_end logs the deletion of a class, while its grants still exist.
CREATE FUNCTION log_device_class_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (type, action, object_id, name, audience)
    VALUES ('device-class', 'deleted', OLD.id, OLD.name, ARRAY(SELECT COALESCE(g.project_id, '') FROM device_class_grants g WHERE g.class_id = OLD.id));
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER log_object AFTER INSERT ON device_classes FOR EACH ROW EXECUTE FUNCTION log_object('device-class');
CREATE TRIGGER log_object_change AFTER UPDATE ON device_classes FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('device-class');
CREATE TRIGGER log_device_class_end BEFORE DELETE ON device_classes FOR EACH ROW EXECUTE FUNCTION log_device_class_end();
CREATE TRIGGER log_device_class_grant AFTER INSERT OR DELETE ON device_class_grants FOR EACH ROW EXECUTE FUNCTION log_device_class_grant();
-- Key: device-classes.
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON device_classes FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('device-classes');
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON device_class_members FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('device-classes');
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON device_class_grants FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('device-classes');
