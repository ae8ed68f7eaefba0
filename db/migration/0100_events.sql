-- +goose Up
-- The log of changes that programs read: ADR 101. A row becomes readable when all transactions with lower IDs have ended
-- (pg_snapshot_xmin), so (transaction, number) is an order in which no row appears before a row that was read. key is the
-- public ID of the event. Random keys reveal nothing about changes of other projects.
CREATE TABLE events (
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number      bigint GENERATED ALWAYS AS IDENTITY,
    key         uuid NOT NULL DEFAULT gen_random_uuid(),
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    type        text NOT NULL, -- fleet.ResourceType; empty: a mark without an object, which begins the log
    action      text NOT NULL DEFAULT 'changed', -- event.Action
    object_id   text NOT NULL DEFAULT '',
    name        text NOT NULL DEFAULT '',
    project_id  text, -- of the object; NULL: an object of the fleet
    user_id     text, -- user who sees a task that belongs to no project
    audience    text[], -- of a deleted network, image or template: projects that had a grant; empty text: all projects
    subject     text NOT NULL DEFAULT '', -- of a task or an alarm
    parent_id   text, -- of a task
    kind        text NOT NULL DEFAULT '', -- kind of a task, severity of an alarm
    state       text NOT NULL DEFAULT '', -- of a task or an alarm
    host_id     text, -- host of a discovered VM
    PRIMARY KEY (transaction, number)
);
CREATE UNIQUE INDEX events_by_key ON events (key);
INSERT INTO events (type, action) VALUES ('', '');

-- +goose StatementBegin
-- events_after returns the oldest readable events after the one with a key: those of the open types, of the projects, for
-- the user, and of the shared types without a project. It reads the primary key in order, whatever the planner expects
-- of the number of rows.
CREATE FUNCTION events_after(after uuid, types text[], project text, open_types text[], projects text[], own text, shared_types text[], most integer) RETURNS SETOF events LANGUAGE sql STABLE ROWS 100
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    SELECT e.* FROM events e
    WHERE (e.transaction, e.number) > ((SELECT m.transaction FROM events m WHERE m.key = after), (SELECT m.number FROM events m WHERE m.key = after))
      AND e.transaction < pg_snapshot_xmin(pg_current_snapshot())
      AND e.type = ANY (types) AND (project = '' OR e.project_id = project)
      AND (e.type = ANY (open_types) OR e.project_id = ANY (projects) OR e.user_id = own OR e.project_id IS NULL AND e.type = ANY (shared_types))
    ORDER BY e.transaction, e.number LIMIT most
$$;
-- +goose StatementEnd

-- Liveness of hosts at the last event about it: no other row changes when a host goes offline.
CREATE TABLE host_liveness (
    host_id text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    online  boolean NOT NULL, -- the agent's last contact is fresh
    fresh   boolean NOT NULL  -- the last report of the hypervisor is fresh
);

-- +goose StatementBegin
-- steady_status returns the status of a VM without values that change all the time, which are metrics.
CREATE FUNCTION steady_status(status jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(status) <> 'object' THEN status
        WHEN jsonb_typeof(status->'disks') <> 'array' OR NOT status ? 'disks' THEN status - 'balloonMiB'
        ELSE jsonb_set(status - 'balloonMiB', '{disks}', COALESCE((
            SELECT jsonb_agg(CASE jsonb_typeof(d.disk) WHEN 'object' THEN d.disk - 'allocBytes' ELSE d.disk END ORDER BY d.i)
            FROM jsonb_array_elements(status->'disks') WITH ORDINALITY AS d (disk, i)), '[]')) END
$$;

CREATE FUNCTION event_action(op text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE op WHEN 'INSERT' THEN 'created' WHEN 'DELETE' THEN 'deleted' ELSE 'changed' END
$$;

CREATE FUNCTION log_vm() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
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
    END IF;
    INSERT INTO events (type, action, object_id, name, project_id) VALUES ('vm', event_action(TG_OP), r.id, r.name, r.project_id);
    RETURN NULL;
END $$;

CREATE FUNCTION log_found_vm() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.name = NEW.name AND steady_status(OLD.status) = steady_status(NEW.status) THEN
            RETURN NULL;
        END IF;
    END IF;
    INSERT INTO events (type, action, object_id, name, host_id) VALUES ('found', event_action(TG_OP), r.id, r.name, r.host_id);
    RETURN NULL;
END $$;

-- Tasks without a project are visible to their creator if they have child tasks or are child tasks, like in the query
-- GetTask. Children come by the thousand in one statement.
CREATE FUNCTION log_new_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (type, action, object_id, name, project_id, user_id, subject, parent_id, kind, state)
    SELECT 'task', 'created', t.id, t.subject_name, t.project_id, CASE WHEN t.project_id IS NULL AND (t.steps IS NOT NULL OR t.parent_id IS NOT NULL OR t.subject = 'task:' || t.id) THEN t.user_id END,
           t.subject, t.parent_id, t.kind, t.state
    FROM added t ORDER BY t.id;
    RETURN NULL;
END $$;

CREATE FUNCTION log_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    INSERT INTO events (type, action, object_id, name, project_id, user_id, subject, parent_id, kind, state)
    VALUES ('task', event_action(TG_OP), r.id, r.subject_name, r.project_id, CASE WHEN r.project_id IS NULL AND (r.steps IS NOT NULL OR r.parent_id IS NOT NULL OR r.subject = 'task:' || r.id) THEN r.user_id END,
            r.subject, r.parent_id, r.kind, r.state);
    RETURN NULL;
END $$;

-- An alarm begins when it is raised.
CREATE FUNCTION log_alarm() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    act text := event_action(TG_OP);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.raised_at IS NULL THEN
            act := 'created';
        END IF;
    END IF;
    INSERT INTO events (type, action, object_id, name, project_id, subject, kind, state)
    VALUES ('alarm', act, r.id, r.subject_name, r.project_id, r.subject, r.severity,
            CASE WHEN r.cleared_at IS NOT NULL THEN 'cleared' WHEN r.acknowledged_at IS NOT NULL THEN 'acknowledged' ELSE 'open' END);
    RETURN NULL;
END $$;

-- log_object logs a change of an object of the type in the first argument. The second argument names the column of its
-- project, if it has one. Without wake-ups of its own, the type has a third argument.
CREATE FUNCTION log_object() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r jsonb := to_jsonb(COALESCE(NEW, OLD));
    told text;
BEGIN
    INSERT INTO events (type, action, object_id, name, project_id) VALUES (TG_ARGV[0], event_action(TG_OP), r->>'id', r->>'name', r->>TG_ARGV[1]);
    IF TG_NARGS > 2 THEN
        told := tell('events');
    END IF;
    RETURN NULL;
END $$;

-- log_host: a host row is large, so it is not converted.
CREATE FUNCTION log_host() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    INSERT INTO events (type, action, object_id, name) VALUES ('host', event_action(TG_OP), r.id, r.name);
    IF TG_OP <> 'UPDATE' THEN
        INSERT INTO events (type, object_id, name) SELECT 'cluster', c.id, c.name FROM clusters c WHERE c.id = r.cluster_id;
    ELSIF OLD.cluster_id <> NEW.cluster_id THEN
        INSERT INTO events (type, object_id, name) SELECT 'cluster', c.id, c.name FROM clusters c WHERE c.id IN (OLD.cluster_id, NEW.cluster_id) ORDER BY c.id;
    END IF;
    RETURN NULL;
END $$;

-- log_granted_end logs the deletion of an object that projects see by grants, while the grants still exist.
CREATE FUNCTION log_granted_end() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r jsonb := to_jsonb(OLD);
    open text[];
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'networks' THEN
            IF leads_out(OLD.id, r->>'kind') THEN
                open := ARRAY(SELECT COALESCE(g.project_id, '') FROM network_grants g WHERE g.network_id = OLD.id);
            ELSE
                open := ARRAY[''];
            END IF;
        WHEN 'images' THEN open := ARRAY(SELECT COALESCE(g.project_id, '') FROM image_open g WHERE g.image_id = OLD.id);
        WHEN 'templates' THEN open := ARRAY(SELECT COALESCE(g.project_id, '') FROM template_grants g WHERE g.template_id = OLD.id);
    END CASE;
    INSERT INTO events (type, action, object_id, name, project_id, audience) VALUES (TG_ARGV[0], 'deleted', OLD.id, r->>'name', r->>'project_id', open);
    RETURN OLD;
END $$;

-- log_assignment logs a change of a pool, network or security group on a host. Sizes of a pool are metrics.
CREATE FUNCTION log_assignment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.asked, OLD.observed_generation, OLD.said, OLD.error, OLD.by_others, OLD.volumes, OLD.forward, OLD.subnets, OLD.file_system, OLD.changed, OLD.drifted)
           IS NOT DISTINCT FROM
           (NEW.asked, NEW.observed_generation, NEW.said, NEW.error, NEW.by_others, NEW.volumes, NEW.forward, NEW.subnets, NEW.file_system, NEW.changed, NEW.drifted) THEN
            RETURN NULL;
        END IF;
    END IF;
    CASE r.noun
        WHEN 'pool' THEN INSERT INTO events (type, object_id, name) SELECT 'pool', p.id, p.name FROM pools p WHERE p.id = r.object_id;
        WHEN 'net' THEN INSERT INTO events (type, object_id, name) SELECT 'net', n.id, n.name FROM networks n WHERE n.id = r.object_id;
        WHEN 'secgroup' THEN INSERT INTO events (type, object_id, name, project_id) SELECT 'secgroup', s.id, s.name, s.project_id FROM security_groups s WHERE s.id = r.object_id;
        ELSE NULL;
    END CASE;
    RETURN NULL;
END $$;

-- log_part logs a change of a part of an object as a change of the object, unless the object was deleted with it.
CREATE FUNCTION log_part() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r jsonb := to_jsonb(COALESCE(NEW, OLD));
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'snapshot_schedules' THEN
            INSERT INTO events (type, object_id, name, project_id) SELECT 'vm', v.id, v.name, v.project_id FROM vms v WHERE v.id = r->>'vm_id';
        WHEN 'project_members' THEN
            INSERT INTO events (type, object_id, name, project_id) SELECT 'project', p.id, p.name, p.id FROM projects p WHERE p.id = r->>'project_id';
            INSERT INTO events (type, object_id, name) SELECT 'user', u.id, u.name FROM users u WHERE u.id = r->>'user_id';
        WHEN 'image_versions', 'image_grants' THEN
            INSERT INTO events (type, object_id, name, project_id) SELECT 'image', i.id, i.name, i.project_id FROM images i WHERE i.id = r->>'image_id';
        WHEN 'image_copies' THEN
            INSERT INTO events (type, object_id, name, project_id) SELECT 'image', i.id, i.name, i.project_id
            FROM image_versions v JOIN images i ON i.id = v.image_id WHERE v.id = r->>'version_id';
        WHEN 'template_versions', 'template_grants' THEN
            INSERT INTO events (type, object_id, name, project_id) SELECT 'template', t.id, t.name, t.project_id FROM templates t WHERE t.id = r->>'template_id';
        WHEN 'port_group_grants', 'network_grants' THEN
            INSERT INTO events (type, object_id, name) SELECT 'net', n.id, n.name FROM networks n WHERE n.id = r->>'network_id';
        WHEN 'selectors', 'left_out' THEN
            INSERT INTO events (type, object_id, name)
            SELECT 'pool', p.id, p.name FROM pools p WHERE r->>'noun' = 'pool' AND p.id = r->>'object_id'
            UNION ALL SELECT 'net', n.id, n.name FROM networks n WHERE r->>'noun' = 'net' AND n.id = r->>'object_id';
    END CASE;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER log_vm AFTER INSERT OR DELETE ON vms FOR EACH ROW EXECUTE FUNCTION log_vm();
CREATE TRIGGER log_vm_change AFTER UPDATE ON vms FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_vm();
CREATE TRIGGER log_found_vm AFTER INSERT OR DELETE OR UPDATE ON found_vms FOR EACH ROW EXECUTE FUNCTION log_found_vm();

CREATE TRIGGER log_new_tasks AFTER INSERT ON tasks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION log_new_tasks();
CREATE TRIGGER log_task_change AFTER UPDATE ON tasks FOR EACH ROW WHEN (OLD.state <> NEW.state OR OLD.project_id IS DISTINCT FROM NEW.project_id) EXECUTE FUNCTION log_task();
-- Tasks and alarms that ended long ago are deleted without an event.
CREATE TRIGGER log_task_end AFTER DELETE ON tasks FOR EACH ROW WHEN (OLD.state IN ('queued', 'running')) EXECUTE FUNCTION log_task();

CREATE TRIGGER log_alarm AFTER INSERT ON alarms FOR EACH ROW WHEN (NEW.raised_at IS NOT NULL) EXECUTE FUNCTION log_alarm();
CREATE TRIGGER log_alarm_change AFTER UPDATE ON alarms FOR EACH ROW
    WHEN (NEW.raised_at IS NOT NULL AND (OLD.raised_at IS NULL OR OLD.severity <> NEW.severity OR OLD.acknowledged_at IS DISTINCT FROM NEW.acknowledged_at
          OR OLD.note <> NEW.note OR OLD.silenced_until IS DISTINCT FROM NEW.silenced_until OR OLD.cleared_at IS DISTINCT FROM NEW.cleared_at)) EXECUTE FUNCTION log_alarm();
CREATE TRIGGER log_alarm_end AFTER DELETE ON alarms FOR EACH ROW WHEN (OLD.raised_at IS NOT NULL AND OLD.cleared_at IS NULL) EXECUTE FUNCTION log_alarm();
CREATE TRIGGER log_object AFTER INSERT OR DELETE OR UPDATE ON alarm_rules FOR EACH ROW EXECUTE FUNCTION log_object('alarm-rule');

CREATE TRIGGER log_host AFTER INSERT OR DELETE ON hosts FOR EACH ROW EXECUTE FUNCTION log_host();
CREATE TRIGGER log_host_change AFTER UPDATE ON hosts FOR EACH ROW
    WHEN (OLD.name <> NEW.name OR OLD.spec <> NEW.spec OR OLD.generation <> NEW.generation OR OLD.status IS DISTINCT FROM NEW.status
          OR OLD.cluster_id <> NEW.cluster_id OR OLD.maintenance IS DISTINCT FROM NEW.maintenance) EXECUTE FUNCTION log_host();
CREATE TRIGGER log_object AFTER INSERT OR DELETE ON clusters FOR EACH ROW EXECUTE FUNCTION log_object('cluster');
CREATE TRIGGER log_object_change AFTER UPDATE ON clusters FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('cluster');
CREATE TRIGGER log_object AFTER INSERT OR DELETE ON pools FOR EACH ROW EXECUTE FUNCTION log_object('pool');
CREATE TRIGGER log_object_change AFTER UPDATE ON pools FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('pool');
CREATE TRIGGER log_assignment AFTER INSERT OR DELETE OR UPDATE ON assignments FOR EACH ROW EXECUTE FUNCTION log_assignment();
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON selectors FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON left_out FOR EACH ROW EXECUTE FUNCTION log_part();

CREATE TRIGGER log_object AFTER INSERT ON networks FOR EACH ROW EXECUTE FUNCTION log_object('net');
CREATE TRIGGER log_object_change AFTER UPDATE ON networks FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('net');
CREATE TRIGGER log_granted_end BEFORE DELETE ON networks FOR EACH ROW EXECUTE FUNCTION log_granted_end('net');
CREATE TRIGGER log_part AFTER INSERT OR DELETE ON network_grants FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_part AFTER INSERT OR DELETE ON port_group_grants FOR EACH ROW EXECUTE FUNCTION log_part();

CREATE TRIGGER log_object AFTER INSERT ON images FOR EACH ROW EXECUTE FUNCTION log_object('image', 'project_id');
CREATE TRIGGER log_object_change AFTER UPDATE ON images FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('image', 'project_id');
CREATE TRIGGER log_granted_end BEFORE DELETE ON images FOR EACH ROW EXECUTE FUNCTION log_granted_end('image');
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON image_versions FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON image_grants FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON image_copies FOR EACH ROW EXECUTE FUNCTION log_part();

CREATE TRIGGER log_object AFTER INSERT ON templates FOR EACH ROW EXECUTE FUNCTION log_object('template', 'project_id');
CREATE TRIGGER log_object_change AFTER UPDATE ON templates FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('template', 'project_id');
CREATE TRIGGER log_granted_end BEFORE DELETE ON templates FOR EACH ROW EXECUTE FUNCTION log_granted_end('template');
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON template_versions FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON template_grants FOR EACH ROW EXECUTE FUNCTION log_part();

CREATE TRIGGER log_object AFTER INSERT OR DELETE ON projects FOR EACH ROW EXECUTE FUNCTION log_object('project', 'id');
CREATE TRIGGER log_object_change AFTER UPDATE ON projects FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('project', 'id');
CREATE TRIGGER log_part AFTER INSERT OR DELETE OR UPDATE ON project_members FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_object AFTER INSERT OR DELETE ON users FOR EACH ROW EXECUTE FUNCTION log_object('user', '', 'wake');
CREATE TRIGGER log_object_change AFTER UPDATE ON users FOR EACH ROW
    WHEN (OLD.name <> NEW.name OR OLD.role <> NEW.role OR OLD.must_change <> NEW.must_change OR OLD.disabled <> NEW.disabled) EXECUTE FUNCTION log_object('user', '', 'wake');
CREATE TRIGGER log_object AFTER INSERT OR DELETE ON security_groups FOR EACH ROW EXECUTE FUNCTION log_object('secgroup', 'project_id');
CREATE TRIGGER log_object_change AFTER UPDATE ON security_groups FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('secgroup', 'project_id');
CREATE TRIGGER log_object AFTER INSERT OR DELETE OR UPDATE ON customizations FOR EACH ROW EXECUTE FUNCTION log_object('customization', 'project_id', 'wake');
CREATE TRIGGER log_part AFTER INSERT OR DELETE ON snapshot_schedules FOR EACH ROW EXECUTE FUNCTION log_part();
CREATE TRIGGER log_part_change AFTER UPDATE ON snapshot_schedules FOR EACH ROW WHEN (OLD.spec <> NEW.spec OR OLD.trouble <> NEW.trouble) EXECUTE FUNCTION log_part();
