-- +goose Up
-- Customization specs of the fleet (project_id NULL) are published to projects. project_id NULL of a grant: every project.
CREATE TABLE customization_grants (
    customization_id text NOT NULL REFERENCES customizations ON DELETE CASCADE,
    project_id       text REFERENCES projects ON DELETE CASCADE,
    granted_by       text NOT NULL,
    granted_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT customization_grant_once UNIQUE NULLS NOT DISTINCT (customization_id, project_id)
);
CREATE INDEX customization_grants_by_project ON customization_grants (project_id) WHERE project_id IS NOT NULL;

-- Until now, every project used each spec of the fleet.
INSERT INTO customization_grants (customization_id, project_id, granted_by) SELECT id, NULL, '' FROM customizations WHERE project_id IS NULL;
UPDATE events SET audience = ARRAY[''] WHERE type = 'customization' AND action = 'deleted' AND project_id IS NULL;

-- +goose StatementBegin
-- log_customization_grant logs a grant as a change of the spec, unless the spec was deleted with it.
CREATE FUNCTION log_customization_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell('events');
BEGIN
    INSERT INTO events (type, object_id, name) SELECT 'customization', c.id, c.name FROM customizations c WHERE c.id = r.customization_id;
    RETURN NULL;
END $$;

-- log_customization_end logs the deletion of a spec, while its grants still exist.
CREATE FUNCTION log_customization_end() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text := tell('events');
BEGIN
    INSERT INTO events (type, action, object_id, name, project_id, audience)
    VALUES ('customization', 'deleted', OLD.id, OLD.name, OLD.project_id,
            ARRAY(SELECT COALESCE(g.project_id, '') FROM customization_grants g WHERE g.customization_id = OLD.id));
    RETURN OLD;
END $$;
-- +goose StatementEnd
DROP TRIGGER log_object ON customizations;
CREATE TRIGGER log_object AFTER INSERT OR UPDATE ON customizations FOR EACH ROW EXECUTE FUNCTION log_object('customization', 'project_id', 'wake');
CREATE TRIGGER log_customization_end BEFORE DELETE ON customizations FOR EACH ROW EXECUTE FUNCTION log_customization_end();
CREATE TRIGGER log_customization_grant AFTER INSERT OR DELETE ON customization_grants FOR EACH ROW EXECUTE FUNCTION log_customization_grant();
