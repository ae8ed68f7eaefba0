-- +goose Up
-- Templates: a VM's spec without its identity, in versions. The disks of a version are versions of images of the library; those that were made for it
-- belong to the template, and are published to whom it is. What of a version can be used now, the images' hosts tell.
CREATE TABLE templates (
    id          text PRIMARY KEY,
    project_id  text NOT NULL REFERENCES projects ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL CONSTRAINT template_name_length CHECK (octet_length(name) BETWEEN 1 AND 200),
    description text NOT NULL DEFAULT '',
    os          jsonb NOT NULL DEFAULT '{}',                    -- fleet.OSFacts
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT template_name_taken UNIQUE (project_id, name)
);
CREATE INDEX templates_by_name ON templates (name, id);

CREATE TABLE template_versions (
    id            text PRIMARY KEY,
    template_id   text NOT NULL REFERENCES templates ON DELETE CASCADE,
    number        integer NOT NULL,
    spec          jsonb NOT NULL,                               -- fleet.VMSpec
    source        text NOT NULL DEFAULT '',                     -- of which VM, in words
    note          text NOT NULL DEFAULT '',
    deprecated_at timestamptz,                                  -- no VM is made from it any more
    deprecated_by text NOT NULL DEFAULT '',
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT template_version_once UNIQUE (template_id, number)
);

-- Who may use a template. project_id NULL: every project.
CREATE TABLE template_grants (
    template_id text NOT NULL REFERENCES templates ON DELETE CASCADE,
    project_id  text REFERENCES projects ON DELETE CASCADE,
    granted_by  text NOT NULL,
    granted_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT template_grant_once UNIQUE NULLS NOT DISTINCT (template_id, project_id)
);
CREATE INDEX template_grants_by_project ON template_grants (project_id) WHERE project_id IS NOT NULL;

-- Images of templates have names that nobody chose, so they take none from people.
ALTER TABLE images ADD COLUMN template_id text REFERENCES templates ON DELETE CASCADE;
CREATE INDEX images_by_template ON images (template_id) WHERE template_id IS NOT NULL;
ALTER TABLE images DROP CONSTRAINT image_name_taken;
CREATE UNIQUE INDEX image_name_taken ON images (project_id, name) NULLS NOT DISTINCT WHERE template_id IS NULL;

-- To whom each image is published: as people said of it, and of its template.
CREATE VIEW image_open AS
    SELECT g.image_id, g.project_id, g.granted_by, g.granted_at FROM image_grants g
    UNION ALL SELECT i.id, g.project_id, g.granted_by, g.granted_at FROM images i JOIN template_grants g ON g.template_id = i.template_id;

-- What was asked for of many VMs that are made at once: control.CreateVM. It goes when the last of them was asked for.
CREATE TABLE vm_orders (
    task_id text PRIMARY KEY COLLATE "C" REFERENCES tasks ON DELETE CASCADE,
    request jsonb NOT NULL
);

-- Keys: template:<id>, and of an image that belongs to one beside the image's own.
-- +goose StatementBegin
CREATE FUNCTION announce_template() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text;
BEGIN
    IF TG_TABLE_NAME = 'templates' THEN
        told := tell('template:' || r.id);
    ELSE
        told := tell('template:' || r.template_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON templates FOR EACH ROW EXECUTE FUNCTION announce_template();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON template_versions FOR EACH ROW EXECUTE FUNCTION announce_template();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON template_grants FOR EACH ROW EXECUTE FUNCTION announce_template();
