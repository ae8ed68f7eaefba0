-- +goose Up
-- What is defined once comes by itself to the hosts that bear certain labels.
CREATE TABLE selectors (
    noun       text COLLATE "C" NOT NULL,
    object_id  text NOT NULL,
    selector   text NOT NULL,             -- as people read it: "rack=4, ssd"
    pairs      jsonb NOT NULL,            -- the same for the index of hosts: {"rack": "4"}
    keys       text[] NOT NULL,           -- and {ssd}: labels that a host has with whichever value
    pool_id    text GENERATED ALWAYS AS (CASE WHEN noun = 'pool' THEN object_id END) STORED REFERENCES pools ON DELETE CASCADE,
    network_id text GENERATED ALWAYS AS (CASE WHEN noun = 'net' THEN object_id END) STORED REFERENCES networks ON DELETE CASCADE,
    PRIMARY KEY (noun, object_id),
    CONSTRAINT selector_noun_known CHECK (num_nonnulls(pool_id, network_id) = 1),
    CONSTRAINT selector_asks_something CHECK (pairs <> '{}' OR cardinality(keys) > 0)
);
CREATE INDEX selectors_by_pool ON selectors (pool_id) WHERE pool_id IS NOT NULL;
CREATE INDEX selectors_by_network ON selectors (network_id) WHERE network_id IS NOT NULL;

-- Hosts that an object does not come to, though their labels ask for it.
CREATE TABLE left_out (
    noun      text COLLATE "C" NOT NULL,
    object_id text NOT NULL,
    host_id   text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    why       text NOT NULL,              -- it cannot be there. Empty: a person released it, and it stays away
    PRIMARY KEY (noun, object_id, host_id),
    FOREIGN KEY (noun, object_id) REFERENCES selectors ON DELETE CASCADE
);
CREATE INDEX left_out_by_host ON left_out (host_id);

CREATE INDEX hosts_by_label ON hosts USING gin ((spec->'labels'));

-- Key 'labels': somebody's labels, or what is asked of them, are other than before.
-- +goose StatementBegin
CREATE FUNCTION announce_labels() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text := tell('labels');
BEGIN
    RETURN NULL;
END $$;

CREATE FUNCTION announce_selector() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell(r.noun || ':' || r.object_id);
BEGIN
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce_labels AFTER INSERT ON hosts FOR EACH ROW WHEN (NEW.spec->'labels' IS NOT NULL) EXECUTE FUNCTION announce_labels();
CREATE TRIGGER announce_labels_change AFTER UPDATE OF spec ON hosts FOR EACH ROW WHEN (OLD.spec->'labels' IS DISTINCT FROM NEW.spec->'labels') EXECUTE FUNCTION announce_labels();
CREATE TRIGGER announce_labels AFTER INSERT OR UPDATE ON selectors FOR EACH ROW EXECUTE FUNCTION announce_labels();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON selectors FOR EACH ROW EXECUTE FUNCTION announce_selector();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON left_out FOR EACH ROW EXECUTE FUNCTION announce_selector();
