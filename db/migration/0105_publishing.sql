-- +goose Up
-- Pools and networks are published to projects: VMs of a project use, and its members see, only what is published to it.
-- project_id NULL: every project.
CREATE TABLE pool_grants (
    pool_id    text NOT NULL REFERENCES pools ON DELETE CASCADE,
    project_id text REFERENCES projects ON DELETE CASCADE,
    granted_by text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pool_grant_once UNIQUE NULLS NOT DISTINCT (pool_id, project_id)
);
CREATE INDEX pool_grants_by_project ON pool_grants (project_id) WHERE project_id IS NOT NULL;
ALTER TABLE network_grants ADD COLUMN granted_by text NOT NULL DEFAULT '', ADD COLUMN granted_at timestamptz NOT NULL DEFAULT now();

-- Until now, only networks that lead out of their hosts needed a grant. A project keeps the pools and networks of its VMs,
-- and its default pool and network. A project without VMs and members keeps nothing.
INSERT INTO pool_grants (pool_id, project_id, granted_by)
SELECT p.id, u.project_id, '' FROM (
    SELECT v.project_id, d->>'poolId' AS pool_id
    FROM vms v CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(v.spec->'disks') WHEN 'array' THEN v.spec->'disks' ELSE '[]' END) d
    UNION
    SELECT j.id, j.default_pool_id FROM projects j
    WHERE EXISTS (SELECT 1 FROM project_members m WHERE m.project_id = j.id) OR EXISTS (SELECT 1 FROM vms v WHERE v.project_id = j.id)) u
JOIN pools p ON p.id = u.pool_id;

INSERT INTO network_grants (network_id, project_id)
SELECT n.id, u.project_id FROM (
    SELECT v.project_id, c->>'networkId' AS network_id
    FROM vms v CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(v.spec->'nics') WHEN 'array' THEN v.spec->'nics' ELSE '[]' END) c
    UNION
    SELECT j.id, j.default_network_id FROM projects j
    WHERE EXISTS (SELECT 1 FROM project_members m WHERE m.project_id = j.id) OR EXISTS (SELECT 1 FROM vms v WHERE v.project_id = j.id)) u
JOIN networks n ON n.id = u.network_id
WHERE NOT EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND g.project_id IS NULL)
ON CONFLICT DO NOTHING;

-- +goose StatementBegin
-- Key: that of the pool or network that is published or withdrawn.
CREATE FUNCTION announce_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r jsonb := to_jsonb(COALESCE(NEW, OLD));
    told text := tell(CASE TG_TABLE_NAME WHEN 'pool_grants' THEN 'pool:' || (r->>'pool_id') ELSE 'net:' || (r->>'network_id') END);
BEGIN
    RETURN NULL;
END $$;

-- log_granted_end logs the deletion of an object that projects see by grants, while the grants still exist.
CREATE OR REPLACE FUNCTION log_granted_end() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r jsonb := to_jsonb(OLD);
    open text[];
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'pools' THEN open := ARRAY(SELECT COALESCE(g.project_id, '') FROM pool_grants g WHERE g.pool_id = OLD.id);
        WHEN 'networks' THEN open := ARRAY(SELECT COALESCE(g.project_id, '') FROM network_grants g WHERE g.network_id = OLD.id);
        WHEN 'images' THEN open := ARRAY(SELECT COALESCE(g.project_id, '') FROM image_open g WHERE g.image_id = OLD.id);
        WHEN 'templates' THEN open := ARRAY(SELECT COALESCE(g.project_id, '') FROM template_grants g WHERE g.template_id = OLD.id);
    END CASE;
    INSERT INTO events (type, action, object_id, name, project_id, audience) VALUES (TG_ARGV[0], 'deleted', OLD.id, r->>'name', r->>'project_id', open);
    RETURN OLD;
END $$;

-- log_pool_grant logs the publication or withdrawal of a pool as a change of the pool, unless the pool was deleted with it.
CREATE FUNCTION log_pool_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    INSERT INTO events (type, object_id, name) SELECT 'pool', p.id, p.name FROM pools p WHERE p.id = r.pool_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER announce AFTER INSERT OR DELETE ON pool_grants FOR EACH ROW EXECUTE FUNCTION announce_grant();
CREATE TRIGGER announce AFTER INSERT OR DELETE ON network_grants FOR EACH ROW EXECUTE FUNCTION announce_grant();
CREATE TRIGGER log_part AFTER INSERT OR DELETE ON pool_grants FOR EACH ROW EXECUTE FUNCTION log_pool_grant();
DROP TRIGGER log_object ON pools;
CREATE TRIGGER log_object AFTER INSERT ON pools FOR EACH ROW EXECUTE FUNCTION log_object('pool');
CREATE TRIGGER log_granted_end BEFORE DELETE ON pools FOR EACH ROW EXECUTE FUNCTION log_granted_end('pool');
-- leads_out stays for portals of the previous version, which run during the upgrade.
