-- +goose Up
-- A flavor is a named size of a VM, which the projects that it is published to can choose. A VM keeps the size, not the
-- flavor.
CREATE TABLE flavors (
    id          text PRIMARY KEY,
    name        text COLLATE "C" NOT NULL CONSTRAINT flavor_name_taken UNIQUE,
    description text NOT NULL DEFAULT '',
    cpus        integer NOT NULL,
    memory_mib  integer NOT NULL,
    disk_bytes  bigint NOT NULL DEFAULT 0, -- size of the first disk; 0: the flavor sets none
    generation  bigint NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- Who may use a flavor. project_id NULL: every project.
CREATE TABLE flavor_grants (
    flavor_id  text NOT NULL REFERENCES flavors ON DELETE CASCADE,
    project_id text REFERENCES projects ON DELETE CASCADE,
    granted_by text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT flavor_grant_once UNIQUE NULLS NOT DISTINCT (flavor_id, project_id)
);
CREATE INDEX flavor_grants_by_project ON flavor_grants (project_id) WHERE project_id IS NOT NULL;

-- The project's rules for its VMs: fleet.VMRules.
ALTER TABLE projects ADD COLUMN vm_rules jsonb NOT NULL DEFAULT '{}';

-- Key: flavors.
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON flavors FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('flavors');
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON flavor_grants FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('flavors');

-- +goose StatementBegin
-- log_flavor_grant logs a grant as a change of the flavor, unless the flavor was deleted with it.
CREATE FUNCTION log_flavor_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record := COALESCE(NEW, OLD);
BEGIN
    INSERT INTO events (type, object_id, name) SELECT 'flavor', f.id, f.name FROM flavors f WHERE f.id = r.flavor_id;
    RETURN NULL;
END $$;

-- log_flavor_end logs the deletion of a flavor, while its grants still exist.
CREATE FUNCTION log_flavor_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (type, action, object_id, name, audience)
    VALUES ('flavor', 'deleted', OLD.id, OLD.name, ARRAY(SELECT COALESCE(g.project_id, '') FROM flavor_grants g WHERE g.flavor_id = OLD.id));
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER log_object AFTER INSERT ON flavors FOR EACH ROW EXECUTE FUNCTION log_object('flavor');
CREATE TRIGGER log_object_change AFTER UPDATE ON flavors FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION log_object('flavor');
CREATE TRIGGER log_flavor_end BEFORE DELETE ON flavors FOR EACH ROW EXECUTE FUNCTION log_flavor_end();
CREATE TRIGGER log_flavor_grant AFTER INSERT OR DELETE ON flavor_grants FOR EACH ROW EXECUTE FUNCTION log_flavor_grant();
