-- +goose Up
-- What is done with the volumes of a pool.
CREATE INDEX jobs_of_volumes ON jobs (split_part(substr(subject, 8), '/', 1)) WHERE subject LIKE 'volume:%' AND state IN ('queued', 'running');

-- volume_held is who needs a volume, as people asked: a VM whose disk it is, one that has it in its drive, one that is being made from it, and
-- whether tenants are offered it. host: of a local pool, on which its file is; a VM's disk of that name counts wherever the VM is.
-- +goose StatementBegin
CREATE FUNCTION volume_held(pool text, volume text, host text) RETURNS json LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    disk jsonb := jsonb_build_object('poolId', pool, 'volume', volume);
BEGIN
    RETURN json_strip_nulls(json_build_object(
        'disk', (SELECT (array_agg(v.name))[1] FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(disk))),
        'drive', (SELECT (array_agg(v.name))[1] FROM vms v WHERE v.spec @> jsonb_build_object('iso', disk)),
        'making', (SELECT (array_agg(v.name))[1] FROM vms v CROSS JOIN LATERAL jsonb_array_elements(v.spec->'disks') d
                   WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('image', disk)))
                     AND v.observed_generation < v.generation AND v.deleted_at IS NULL AND d->'image' @> disk
                     AND NOT EXISTS (SELECT 1 FROM made_disks m WHERE m.vm_id = v.id AND m.pool_id = d->>'poolId' AND m.volume = d->>'volume')),
        'published', (SELECT true FROM published_images p
                      WHERE p.pool_id = volume_held.pool AND p.volume = volume_held.volume AND (p.host_id IS NULL OR volume_held.host = '' OR p.host_id = volume_held.host) LIMIT 1)));
END $$;
-- +goose StatementEnd

-- work_of_volume is work_of for subjects that are volumes, "volume:<pool>/<name>": the pool, and who needs the volume. NULL for all others.
-- +goose StatementBegin
CREATE FUNCTION work_of_volume(subject text, host text) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE
    pool text;
BEGIN
    IF subject NOT LIKE 'volume:%' THEN
        RETURN NULL;
    END IF;
    pool := split_part(substr(subject, 8), '/', 1);
    RETURN (SELECT json_build_object(
        'pool', json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation, 'createdAt', p.created_at, 'deletedAt', p.deleted_at),
        'held', volume_held(pool, substr(subject, 9 + length(pool)), host))
        FROM pools p WHERE p.id = pool COLLATE "default");
END $$;
-- +goose StatementEnd
