-- +goose Up
-- What tenants may clone or put into a drive: the volumes that an operator has published, and nothing else. What was seen then is
-- remembered: a file that is another one since is not offered until somebody has looked at it again.
CREATE TABLE published_images (
    pool_id        text NOT NULL REFERENCES pools ON DELETE CASCADE,
    host_id        text REFERENCES hosts ON DELETE CASCADE,     -- whose file it is; NULL: of a shared pool, the same for all
    volume         text COLLATE "C" NOT NULL CONSTRAINT volume_name_length CHECK (octet_length(volume) BETWEEN 1 AND 255),
    project_id     text REFERENCES projects ON DELETE CASCADE,  -- for whom; NULL: for everybody
    format         text NOT NULL,
    capacity_bytes bigint NOT NULL,
    published_by   text NOT NULL,
    published_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT published_once UNIQUE NULLS NOT DISTINCT (pool_id, volume, host_id, project_id)
);
CREATE INDEX published_images_by_host ON published_images (host_id) WHERE host_id IS NOT NULL;          -- what goes with a host
CREATE INDEX published_images_by_project ON published_images (project_id) WHERE project_id IS NOT NULL; -- and with a project

-- Key: pool:<id>, as what a host reports of the pool.
-- +goose StatementBegin
CREATE FUNCTION announce_image() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    PERFORM pg_notify('quantix', 'pool:' || r.pool_id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON published_images FOR EACH ROW EXECUTE FUNCTION announce_image();
