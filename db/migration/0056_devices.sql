-- +goose Up
-- spec_reads is whether a VM's spec names the volume, or any of the pool where volume is empty, as something that is read: in a drive, as a kernel,
-- as a shared folder. It is one question to the index of specs.
-- +goose StatementBegin
CREATE FUNCTION spec_reads(spec jsonb, pool text, volume text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT spec @@ (replace('exists($.iso ? (?)) || exists($.drives[*].medium ? (?)) || exists($.boot.kernel ? (?)) || exists($.boot.initrd ? (?)) || exists($.shares[*].folder ? (?))',
        '(?)', '(@.poolId == ' || to_json(pool)::text || CASE WHEN volume = '' THEN '' ELSE ' && @.volume == ' || to_json(volume)::text END || ')'))::jsonpath
$$;
-- +goose StatementEnd

-- volume_held as it was, of all drives and of what a VM is started from.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION volume_held(pool text, volume text, host text) RETURNS json LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    disk jsonb := jsonb_build_object('poolId', pool, 'volume', volume);
    image text := (SELECT i.name FROM image_copies p JOIN image_versions v ON v.id = p.version_id JOIN images i ON i.id = v.image_id
                   WHERE p.pool_id = volume_held.pool AND p.volume = volume_held.volume AND (p.host_id IS NULL OR volume_held.host = '' OR p.host_id = volume_held.host) LIMIT 1);
BEGIN
    RETURN json_strip_nulls(json_build_object(
        'disk', (SELECT (array_agg(v.name))[1] FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(disk))),
        'drive', (SELECT (array_agg(v.name))[1] FROM vms v WHERE spec_reads(v.spec, pool, volume)),
        'making', (SELECT (array_agg(v.name))[1] FROM vms v CROSS JOIN LATERAL jsonb_array_elements(v.spec->'disks') d
                   WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('image', disk)))
                     AND v.observed_generation < v.generation AND v.deleted_at IS NULL AND d->'image' @> disk
                     AND NOT EXISTS (SELECT 1 FROM made_disks m WHERE m.vm_id = v.id AND m.pool_id = d->>'poolId' AND m.volume = d->>'volume')),
        'published', image IS NOT NULL OR NULL, 'image', image));
END $$;
-- +goose StatementEnd
