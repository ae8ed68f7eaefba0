-- +goose Up
-- Clusters are groups of hosts. Each host belongs to one cluster; hosts join the cluster with the fixed ID
-- (fleet.DefaultClusterID), which cannot be deleted.
CREATE TABLE clusters (
    id         text PRIMARY KEY,
    name       text COLLATE "C" NOT NULL CONSTRAINT cluster_name_taken UNIQUE,
    spec       jsonb NOT NULL DEFAULT '{"placement": "spread"}', -- fleet.ClusterSpec
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO clusters (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'default');

ALTER TABLE hosts ADD COLUMN cluster_id text NOT NULL DEFAULT '00000000-0000-7000-8000-000000000001' REFERENCES clusters;
CREATE INDEX hosts_by_cluster ON hosts (cluster_id, name, id);

-- The features that the host with this status lacks for guests with the CPU model; NULL: it supports the model, or its
-- agent is too old to report models. Empty: the features are unknown. See fleet.Inventory.GapOf.
-- +goose StatementBegin
CREATE FUNCTION missing_cpu_features(status jsonb, model text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF model = '' OR jsonb_typeof(status->'inventory'->'cpuModels') IS DISTINCT FROM 'array' OR status->'inventory'->'cpuModels' ? model THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT f #>> '{}' FROM jsonb_path_query(status, '$.inventory.cpuModelGaps[*] ? (@.model == $model).missing[*]', jsonb_build_object('model', model)) f);
END $$;

-- Keys: cluster:<id>, also when hosts join or leave the cluster.
CREATE FUNCTION announce_cluster() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    CASE
        WHEN TG_TABLE_NAME = 'clusters' THEN told := tell('cluster:' || COALESCE(NEW.id, OLD.id));
        WHEN TG_OP = 'INSERT' THEN told := tell('cluster:' || NEW.cluster_id);
        WHEN TG_OP = 'DELETE' THEN told := tell('cluster:' || OLD.cluster_id);
        ELSE told := tell('cluster:' || OLD.cluster_id, 'cluster:' || NEW.cluster_id);
    END CASE;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON clusters FOR EACH ROW EXECUTE FUNCTION announce_cluster();
CREATE TRIGGER announce_cluster AFTER INSERT OR DELETE ON hosts FOR EACH ROW EXECUTE FUNCTION announce_cluster();
CREATE TRIGGER announce_cluster_change AFTER UPDATE OF cluster_id ON hosts FOR EACH ROW WHEN (OLD.cluster_id IS DISTINCT FROM NEW.cluster_id) EXECUTE FUNCTION announce_cluster();
