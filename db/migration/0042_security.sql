-- +goose Up
-- What a host has counted at network cards whose packets it looks at, a row a host, written with its beats. As with meters there is no trigger, and
-- a card is read in the row of the host that its VM is on, so that no host tells of another's.
CREATE UNLOGGED TABLE host_filter_counts (
    host_id text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    at      timestamptz NOT NULL, -- when it was read on the host, or later
    cards   jsonb NOT NULL,       -- fleet.CardCount, of each card one
    error   text NOT NULL         -- why nothing can be counted
) WITH (fillfactor = 50);

-- Cards may follow what their port group gives them by default.
CREATE TRIGGER announce_filters AFTER UPDATE OF spec ON networks FOR EACH ROW WHEN (OLD.spec->'portGroups' IS DISTINCT FROM NEW.spec->'portGroups')
    EXECUTE FUNCTION announce_fewer_filters();

-- What somebody changed of a group on a host is asked by each overview, beside what a host could not apply.
CREATE INDEX security_groups_drifted ON assignments (security_group_id) WHERE security_group_id IS NOT NULL AND status ? 'drift' AND asked = 'assign';
