-- +goose Up
-- Security groups: what may pass the network cards that are in them. Of a project, or of the fleet (project_id NULL).
CREATE TABLE security_groups (
    id         text PRIMARY KEY,
    project_id text REFERENCES projects ON DELETE CASCADE,
    name       text NOT NULL,
    spec       jsonb NOT NULL,
    generation bigint NOT NULL DEFAULT 1,        -- of people's changes
    revision   bigint NOT NULL DEFAULT 1,        -- of what hosts are to have: raised also where the addresses of members change
    members    jsonb NOT NULL DEFAULT '[]',      -- the addresses of its cards, as hosts last said; kept only while a rule names the group
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    CONSTRAINT security_group_name_taken UNIQUE NULLS NOT DISTINCT (project_id, name)
);
-- Which groups name another as the other side.
CREATE INDEX security_groups_by_spec ON security_groups USING gin (spec jsonb_path_ops);

-- Which cards are in which groups: of vms.spec, kept by PostgreSQL itself.
CREATE TABLE nic_groups (
    vm_id    text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    mac      text NOT NULL,
    group_id text NOT NULL REFERENCES security_groups,
    PRIMARY KEY (vm_id, mac, group_id)
);
CREATE INDEX nic_groups_by_group ON nic_groups (group_id);

ALTER TABLE assignments
    ADD COLUMN security_group_id text GENERATED ALWAYS AS (CASE WHEN noun = 'secgroup' THEN object_id END) STORED REFERENCES security_groups ON DELETE CASCADE;
ALTER TABLE assignments
    DROP CONSTRAINT assignment_noun_known,
    ADD CONSTRAINT assignment_noun_known CHECK (num_nonnulls(pool_id, network_id, security_group_id) = 1);
CREATE INDEX assignments_by_security_group ON assignments (security_group_id) WHERE security_group_id IS NOT NULL;
-- What hosts could not apply is asked by each overview.
CREATE INDEX security_groups_failed ON assignments (security_group_id) WHERE security_group_id IS NOT NULL AND faulty AND asked = 'assign';

CREATE OR REPLACE VIEW objects AS
SELECT 'pool' AS noun, id, name, generation FROM pools
UNION ALL SELECT 'net', id, name, generation FROM networks
UNION ALL SELECT 'secgroup', id, name, revision FROM security_groups;

-- Key 'filters': what hosts are to let pass may be another.
-- +goose StatementBegin
CREATE FUNCTION keep_nic_groups() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT jsonb_path_exists(NEW.spec, '$.nics[*].securityGroups[*]') THEN
            RETURN NULL;
        END IF;
    ELSIF OLD.spec->'nics' IS NOT DISTINCT FROM NEW.spec->'nics' THEN
        RETURN NULL;
    END IF;
    DELETE FROM nic_groups g WHERE g.vm_id = NEW.id;
    INSERT INTO nic_groups (vm_id, mac, group_id)
    SELECT DISTINCT NEW.id, lower(n->>'mac'), g #>> '{}' FROM jsonb_path_query(NEW.spec, '$.nics[*]') n CROSS JOIN LATERAL jsonb_path_query(n, '$.securityGroups[*]') g;
    told := tell('filters');
    RETURN NULL;
END $$;

-- A VM whose cards are in groups has other addresses, or is on another host.
CREATE FUNCTION announce_filters() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    IF (OLD.host_id <> NEW.host_id OR OLD.status->'nics' IS DISTINCT FROM NEW.status->'nics') AND EXISTS (SELECT 1 FROM nic_groups g WHERE g.vm_id = NEW.id) THEN
        told := tell('filters');
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION announce_fewer_filters() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text := tell('filters');
BEGIN
    RETURN NULL;
END $$;

CREATE FUNCTION announce_security_group() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell('secgroup:' || r.id, 'secgroups:' || r.project_id, 'filters');
BEGIN
    RETURN NULL;
END $$;

-- work_of_filters is work_of for subjects that are security groups, and beside work_of for VMs: the groups, and the addresses of members of those that
-- their rules name. NULL for all others, and for VMs without.
CREATE FUNCTION work_of_filters(subject text, host text) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE ids text[];
BEGIN
    IF subject LIKE 'secgroup:%' THEN
        ids := ARRAY[substr(subject, 10) COLLATE "default"];
    ELSIF subject LIKE 'vm:%' THEN
        ids := ARRAY(SELECT DISTINCT g.group_id FROM nic_groups g WHERE g.vm_id = substr(subject, 4));
    END IF;
    IF COALESCE(cardinality(ids), 0) = 0 THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT json_build_object(
        'groups', (SELECT json_agg(json_build_object('id', s.id, 'name', s.name, 'spec', s.spec, 'generation', s.generation, 'revision', s.revision, 'createdAt', s.created_at))
                   FROM security_groups s WHERE s.id = ANY (ids)),
        'members', (SELECT json_object_agg(m.id, m.members) FROM security_groups m
                    WHERE m.id = ANY (ARRAY(SELECT jsonb_path_query(s.spec, '$.rules[*].groupId') #>> '{}' FROM security_groups s WHERE s.id = ANY (ids))))));
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_nic_groups AFTER INSERT OR UPDATE OF spec ON vms FOR EACH ROW EXECUTE FUNCTION keep_nic_groups();
CREATE TRIGGER announce_filters AFTER UPDATE OF status, host_id ON vms FOR EACH ROW EXECUTE FUNCTION announce_filters();
CREATE TRIGGER announce_filters AFTER DELETE ON nic_groups FOR EACH STATEMENT EXECUTE FUNCTION announce_fewer_filters();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON security_groups FOR EACH ROW EXECUTE FUNCTION announce_security_group();
