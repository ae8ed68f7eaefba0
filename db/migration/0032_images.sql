-- +goose Up
-- The library of images. An image is a name with versions; each version lies as any number of copies in pools; whom it is published to, people
-- say. What of a copy is as it was, its host's report of the pool tells.
CREATE TABLE images (
    id          text PRIMARY KEY,
    project_id  text REFERENCES projects ON DELETE CASCADE,     -- whose it is; NULL: the fleet's
    name        text COLLATE "C" NOT NULL CONSTRAINT image_name_length CHECK (octet_length(name) BETWEEN 1 AND 300),
    description text NOT NULL DEFAULT '',
    os          jsonb NOT NULL DEFAULT '{}',                    -- fleet.OSFacts
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT image_name_taken UNIQUE NULLS NOT DISTINCT (project_id, name)
);
CREATE INDEX images_by_name ON images (name, id);

CREATE TABLE image_versions (
    id             text PRIMARY KEY,
    image_id       text NOT NULL REFERENCES images ON DELETE CASCADE,
    number         integer NOT NULL,
    format         text NOT NULL,
    capacity_bytes bigint NOT NULL,
    sha256         text NOT NULL DEFAULT '',                    -- of the file; '': not known. Never another once it is known
    source         text NOT NULL DEFAULT '',                    -- where it came from, in words
    created_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT image_version_once UNIQUE (image_id, number)
);
CREATE INDEX image_versions_by_digest ON image_versions (sha256) WHERE sha256 <> '';

-- Files that are copies of a version: of a local pool, of each host its own.
CREATE TABLE image_copies (
    version_id text NOT NULL REFERENCES image_versions ON DELETE CASCADE,
    pool_id    text NOT NULL REFERENCES pools ON DELETE CASCADE,
    host_id    text REFERENCES hosts ON DELETE CASCADE,         -- whose file it is; NULL: of a shared pool, the same for all
    volume     text COLLATE "C" NOT NULL CONSTRAINT volume_name_length CHECK (octet_length(volume) BETWEEN 1 AND 255),
    added_by   text NOT NULL,
    added_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT image_copy_once UNIQUE NULLS NOT DISTINCT (pool_id, volume, host_id)
);
CREATE INDEX image_copies_by_version ON image_copies (version_id);
CREATE INDEX image_copies_by_host ON image_copies (host_id) WHERE host_id IS NOT NULL;

-- Who may use an image. project_id NULL: every project.
CREATE TABLE image_grants (
    image_id   text NOT NULL REFERENCES images ON DELETE CASCADE,
    project_id text REFERENCES projects ON DELETE CASCADE,
    granted_by text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT image_grant_once UNIQUE NULLS NOT DISTINCT (image_id, project_id)
);
CREATE INDEX image_grants_by_project ON image_grants (project_id) WHERE project_id IS NOT NULL;

-- What was published until now: each volume of a pool is an image of one version, published to whom the volume was. Files of one name in one
-- local pool that looked the same are its copies; whether they have the same bytes, their hosts tell when they are asked.
CREATE TEMPORARY TABLE library ON COMMIT DROP AS
SELECT p.pool_id, p.volume, p.format, p.capacity_bytes, gen_random_uuid()::text AS image_id, gen_random_uuid()::text AS version_id,
       min(p.published_by) AS by, min(p.published_at) AS at,
       row_number() OVER (PARTITION BY p.volume ORDER BY min(p.published_at), p.pool_id, p.format, p.capacity_bytes) AS nth
FROM published_images p GROUP BY p.pool_id, p.volume, p.format, p.capacity_bytes;
INSERT INTO images (id, name, created_by, created_at)
SELECT image_id, volume || CASE nth WHEN 1 THEN '' ELSE ' (' || nth || ')' END, by, at FROM library;
INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, source, created_by, created_at)
SELECT version_id, image_id, 1, format, capacity_bytes, 'published before there was a library', by, at FROM library;
INSERT INTO image_copies (version_id, pool_id, host_id, volume, added_by, added_at)
SELECT DISTINCT ON (p.pool_id, p.volume, p.host_id) l.version_id, p.pool_id, p.host_id, p.volume, p.published_by, p.published_at
FROM published_images p JOIN library l ON (l.pool_id, l.volume, l.format, l.capacity_bytes) = (p.pool_id, p.volume, p.format, p.capacity_bytes)
ORDER BY p.pool_id, p.volume, p.host_id, p.published_at DESC;
INSERT INTO image_grants (image_id, project_id, granted_by, granted_at)
SELECT DISTINCT ON (l.image_id, p.project_id) l.image_id, p.project_id, p.published_by, p.published_at
FROM published_images p JOIN library l ON (l.pool_id, l.volume, l.format, l.capacity_bytes) = (p.pool_id, p.volume, p.format, p.capacity_bytes)
ORDER BY l.image_id, p.project_id, p.published_at;
DROP TABLE published_images;
DROP FUNCTION announce_image();

-- Keys: image:<id>, and of a copy pool:<id> beside it, as what a host reports of the pool.
-- +goose StatementBegin
CREATE FUNCTION announce_image() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text;
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'images' THEN told := tell('image:' || r.id);
        WHEN 'image_copies' THEN told := tell('pool:' || r.pool_id, 'image:' || COALESCE((SELECT v.image_id FROM image_versions v WHERE v.id = r.version_id), ''));
        ELSE told := tell('image:' || r.image_id);
    END CASE;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON images FOR EACH ROW EXECUTE FUNCTION announce_image();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON image_versions FOR EACH ROW EXECUTE FUNCTION announce_image();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON image_copies FOR EACH ROW EXECUTE FUNCTION announce_image();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON image_grants FOR EACH ROW EXECUTE FUNCTION announce_image();

-- Jobs that begin when others have ended, however those ended: the host then says what it lacks. Until then they wait for a day that no portal sees.
CREATE FUNCTION never() RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT timestamptz '9999-01-01 00:00:00+00' $$;
CREATE TABLE job_waits (
    job_id text COLLATE "C" NOT NULL REFERENCES jobs ON DELETE CASCADE,
    for_id text COLLATE "C" NOT NULL REFERENCES jobs ON DELETE CASCADE,
    PRIMARY KEY (job_id, for_id)
);
CREATE INDEX job_waits_by_other ON job_waits (for_id);

-- +goose StatementBegin
CREATE FUNCTION end_waits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- In order, so that of two that end at once the second sees that the first has.
    PERFORM 1 FROM jobs j WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) ORDER BY j.id FOR NO KEY UPDATE;
    UPDATE jobs j SET run_after = now()
    WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) AND j.state = 'queued' AND j.run_after = never()
      AND NOT EXISTS (SELECT 1 FROM job_waits w JOIN jobs o ON o.id = w.for_id WHERE w.job_id = j.id AND o.id <> OLD.id AND o.state IN ('queued', 'running'));
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    DELETE FROM job_waits w WHERE w.for_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER end_waits AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (OLD.kind LIKE 'volume.%' AND OLD.state <> NEW.state AND NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION end_waits();
CREATE TRIGGER end_waits_gone BEFORE DELETE ON jobs FOR EACH ROW WHEN (OLD.kind LIKE 'volume.%') EXECUTE FUNCTION end_waits();

-- volume_held as it was, but that what is published is what the library has: published and the image's name, of any copy, whoever may use it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION volume_held(pool text, volume text, host text) RETURNS json LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    disk jsonb := jsonb_build_object('poolId', pool, 'volume', volume);
    image text := (SELECT i.name FROM image_copies p JOIN image_versions v ON v.id = p.version_id JOIN images i ON i.id = v.image_id
                   WHERE p.pool_id = volume_held.pool AND p.volume = volume_held.volume AND (p.host_id IS NULL OR volume_held.host = '' OR p.host_id = volume_held.host) LIMIT 1);
BEGIN
    RETURN json_strip_nulls(json_build_object(
        'disk', (SELECT (array_agg(v.name))[1] FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(disk))),
        'drive', (SELECT (array_agg(v.name))[1] FROM vms v WHERE v.spec @> jsonb_build_object('iso', disk)),
        'making', (SELECT (array_agg(v.name))[1] FROM vms v CROSS JOIN LATERAL jsonb_array_elements(v.spec->'disks') d
                   WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('image', disk)))
                     AND v.observed_generation < v.generation AND v.deleted_at IS NULL AND d->'image' @> disk
                     AND NOT EXISTS (SELECT 1 FROM made_disks m WHERE m.vm_id = v.id AND m.pool_id = d->>'poolId' AND m.volume = d->>'volume')),
        'published', image IS NOT NULL OR NULL, 'image', image));
END $$;
-- +goose StatementEnd

-- source_of_volume is what a host is told of the pool that it copies a volume from, where that is another one. NULL: none.
-- +goose StatementBegin
CREATE FUNCTION source_of_volume(args jsonb) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF args->'volume'->>'sourcePool' IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation, 'createdAt', p.created_at, 'deletedAt', p.deleted_at)
            FROM pools p WHERE p.id = (args->'volume'->>'sourcePool') COLLATE "default");
END $$;
-- +goose StatementEnd
