-- +goose Up
-- Well-known images: addresses from which an administrator pulls an image into the library. People change the list as they like;
-- restore_start_images() brings back what came with Quantix.
CREATE TABLE start_images (
    id           text PRIMARY KEY,
    name         text COLLATE "C" NOT NULL CONSTRAINT start_image_name_taken UNIQUE CONSTRAINT start_image_name_length CHECK (octet_length(name) BETWEEN 1 AND 200),
    os           jsonb NOT NULL DEFAULT '{}',       -- fleet.OSFacts
    url          text NOT NULL,
    file         text NOT NULL,                     -- the volume's name
    checksum     text NOT NULL DEFAULT '',          -- "sha256:…" or "sha512:…"
    checksum_url text NOT NULL DEFAULT '',          -- or the address of a file that has it; never both
    changed_by   text NOT NULL DEFAULT '',          -- '': it is as it came
    changed_at   timestamptz NOT NULL DEFAULT now(),
    task_id      text COLLATE "C"                   -- the last order to pull it, as long as it is known
);

ALTER TABLE image_versions ADD COLUMN start_id text REFERENCES start_images ON DELETE SET NULL; -- of which entry it was pulled
CREATE INDEX image_versions_by_start ON image_versions (start_id) WHERE start_id IS NOT NULL;

-- Most addresses lead to the newest build, whose checksum changes with each: it is in a file beside the image. Fedora and Alpine name each build anew.
-- +goose StatementBegin
CREATE FUNCTION restore_start_images() RETURNS bigint LANGUAGE sql AS $$
    WITH original (id, name, system, release, url, file, checksum_url) AS (VALUES
        ('00000000-0000-7000-8000-000000440001', 'Debian 12', 'Debian', '12',
         'https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-amd64.qcow2', 'debian-12.qcow2',
         'https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS'),
        ('00000000-0000-7000-8000-000000440002', 'Debian 13', 'Debian', '13',
         'https://cloud.debian.org/images/cloud/trixie/latest/debian-13-genericcloud-amd64.qcow2', 'debian-13.qcow2',
         'https://cloud.debian.org/images/cloud/trixie/latest/SHA512SUMS'),
        ('00000000-0000-7000-8000-000000440003', 'Ubuntu 22.04', 'Ubuntu', '22.04',
         'https://cloud-images.ubuntu.com/jammy/current/jammy-server-cloudimg-amd64.img', 'ubuntu-22.04.qcow2',
         'https://cloud-images.ubuntu.com/jammy/current/SHA256SUMS'),
        ('00000000-0000-7000-8000-000000440004', 'Ubuntu 24.04', 'Ubuntu', '24.04',
         'https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img', 'ubuntu-24.04.qcow2',
         'https://cloud-images.ubuntu.com/noble/current/SHA256SUMS'),
        ('00000000-0000-7000-8000-000000440005', 'AlmaLinux 9', 'AlmaLinux', '9',
         'https://repo.almalinux.org/almalinux/9/cloud/x86_64/images/AlmaLinux-9-GenericCloud-latest.x86_64.qcow2', 'almalinux-9.qcow2',
         'https://repo.almalinux.org/almalinux/9/cloud/x86_64/images/CHECKSUM'),
        ('00000000-0000-7000-8000-000000440006', 'Fedora 44', 'Fedora', '44',
         'https://download.fedoraproject.org/pub/fedora/linux/releases/44/Cloud/x86_64/images/Fedora-Cloud-Base-Generic-44-1.7.x86_64.qcow2', 'fedora-44.qcow2',
         'https://download.fedoraproject.org/pub/fedora/linux/releases/44/Cloud/x86_64/images/Fedora-Cloud-44-1.7-x86_64-CHECKSUM'),
        ('00000000-0000-7000-8000-000000440007', 'Alpine 3.22', 'Alpine', '3.22',
         'https://dl-cdn.alpinelinux.org/alpine/v3.22/releases/cloud/nocloud_alpine-3.22.4-x86_64-bios-cloudinit-r0.qcow2', 'alpine-3.22.qcow2',
         'https://dl-cdn.alpinelinux.org/alpine/v3.22/releases/cloud/nocloud_alpine-3.22.4-x86_64-bios-cloudinit-r0.qcow2.sha512')
    ), restored AS (
        INSERT INTO start_images AS s (id, name, os, url, file, checksum_url)
        SELECT id, name, jsonb_build_object('family', 'linux', 'name', system, 'version', release, 'arch', 'x86_64'), url, file, checksum_url FROM original
        ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, os = EXCLUDED.os, url = EXCLUDED.url, file = EXCLUDED.file, checksum = '',
            checksum_url = EXCLUDED.checksum_url, changed_by = '', changed_at = now()
        WHERE s.changed_by <> ''
        RETURNING 1)
    SELECT count(*) FROM restored
$$;

-- Keys: image:<id>, so that whoever follows all images hears of it.
CREATE FUNCTION announce_start_image() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell('image:' || r.id);
BEGIN
    RETURN NULL;
END $$;
-- +goose StatementEnd
SELECT restore_start_images();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON start_images FOR EACH ROW EXECUTE FUNCTION announce_start_image();

-- What waits for a copy to be verified begins only where it was: of one that could not be read, or has other bytes, nothing is made. What waits for a copy
-- to come begins however that ends, as before.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_waits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- In order, so that of two that end at once the second sees that the first has.
    PERFORM 1 FROM jobs j WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) ORDER BY j.id FOR NO KEY UPDATE;
    IF TG_OP = 'UPDATE' AND OLD.kind = 'volume.hash' AND NEW.state <> 'done' THEN
        UPDATE jobs j SET state = 'failed', ended_at = now(),
            error = 'The image could not be verified, so nothing was made from it' || COALESCE(': ' || NULLIF(NEW.error, ''), '.')
        WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) AND j.state = 'queued' AND j.run_after = never();
    END IF;
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
