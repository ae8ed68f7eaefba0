-- +goose Up
-- The hosts of an overlay send one another its packets: peers are the addresses by which they take them, as they say. Kept by the pass that
-- gathers them; with another set comes another generation, so that every host is told.
ALTER TABLE networks ADD COLUMN peers text[] NOT NULL DEFAULT '{}';

-- network_peers is what a host is told of a job's subject beside work_of: the peers of a network.
-- +goose StatementBegin
CREATE FUNCTION network_peers(subject text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN subject LIKE 'net:%' THEN (SELECT n.peers FROM networks n WHERE n.id = substr(subject, 5) COLLATE "default") END
$$;

-- Who gathers the peers hears of a host that comes to an overlay, leaves it, or has another address there.
CREATE FUNCTION announce_peers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text := tell('peers');
BEGIN
    RETURN NULL;
END $$;

-- leads_out is true of bridges, of what is defined here to lead out, and of libvirt's networks that hand on a bridge or a device of the host.
CREATE OR REPLACE FUNCTION leads_out(network text, kind text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT kind = 'bridge'
        OR EXISTS (SELECT 1 FROM networks n WHERE n.id = network AND n.spec->>'mode' IN ('vxlan', 'uplink', 'bridge', 'ovs', 'macvtap', 'sriov'))
        OR EXISTS (SELECT 1 FROM assignments a
        WHERE a.network_id = network AND a.status->>'forward' IN ('bridge', 'vepa', 'private', 'passthrough', 'hostdev'))
$$;
-- +goose StatementEnd
CREATE TRIGGER announce_peers_joined AFTER UPDATE ON assignments FOR EACH ROW
WHEN (NEW.network_id IS NOT NULL AND (OLD.status->>'vtep' IS DISTINCT FROM NEW.status->>'vtep' OR OLD.asked <> NEW.asked AND NEW.status ? 'vtep')) EXECUTE FUNCTION announce_peers();
CREATE TRIGGER announce_peers_left AFTER DELETE ON assignments FOR EACH ROW
WHEN (OLD.network_id IS NOT NULL AND OLD.status ? 'vtep') EXECUTE FUNCTION announce_peers();

CREATE INDEX networks_overlays ON networks (id) WHERE spec->>'mode' = 'vxlan';
