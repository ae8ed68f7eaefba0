-- +goose Up
-- A host's spec names its defaults, and its taints are objects with an effect.
UPDATE hosts SET spec = '{"schedulable": true, "roles": {"compute": true, "storage": true, "controlPlane": false}}'::jsonb || spec;
UPDATE hosts SET spec = jsonb_set(spec, '{taints}', (
        SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('key', split_part(t, '=', 1), 'value', NULLIF(split_part(t, '=', 2), ''), 'effect', 'NoSchedule')) ORDER BY i)
        FROM jsonb_array_elements_text(spec->'taints') WITH ORDINALITY AS e (t, i)))
    WHERE jsonb_typeof(spec->'taints') = 'array' AND spec->'taints' <> '[]';
ALTER TABLE hosts ALTER COLUMN spec SET DEFAULT '{"schedulable": true, "roles": {"compute": true, "storage": true, "controlPlane": false}}';
