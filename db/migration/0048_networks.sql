-- +goose Up
-- leads_out is true of bridges, of what is defined here to lead out, and of libvirt's networks that hand on a bridge or a device of the host. Of what is
-- defined here only hosts tell that are to have it: what another host calls by its name is another network, and no VM comes onto that.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION leads_out(network text, kind text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT kind = 'bridge'
        OR EXISTS (SELECT 1 FROM networks n WHERE n.id = network AND n.spec->>'mode' IN ('vxlan', 'uplink', 'bridge', 'ovs', 'macvtap', 'sriov'))
        OR EXISTS (SELECT 1 FROM assignments a
        WHERE a.network_id = network AND a.status->>'forward' IN ('bridge', 'vepa', 'private', 'passthrough', 'hostdev')
          AND (a.asked <> '' AND NOT a.status ? 'foreign' OR EXISTS (SELECT 1 FROM networks n WHERE n.id = network AND n.spec IS NULL)))
$$;
-- +goose StatementEnd
