-- +goose Up
-- A network that is defined here has a spec and is assigned to hosts as a pool is. Others are found on hosts, as before. Name and kind stay
-- unique over both: a card names one network.
ALTER TABLE networks
    ADD COLUMN spec       jsonb,       -- NULL: found
    ADD COLUMN deleted_at timestamptz,
    ADD CONSTRAINT network_defined_in_libvirt CHECK (spec IS NULL OR kind = 'libvirt'),
    ADD CONSTRAINT network_deleted_is_defined CHECK (deleted_at IS NULL OR spec IS NOT NULL);

-- end_network ends what people defined. Where hosts have another network of its name, that one stays as what it is: found, and open to
-- nobody by a grant that was given to the other.
-- +goose StatementBegin
CREATE FUNCTION end_network(network text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM networks n WHERE n.id = network AND n.spec IS NOT NULL AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id);
    UPDATE networks n SET spec = NULL, deleted_at = NULL, generation = n.generation + 1 WHERE n.id = network AND n.spec IS NOT NULL;
    IF FOUND THEN
        DELETE FROM network_grants g WHERE g.network_id = network;
        UPDATE assignments a SET status = a.status - 'foreign' - 'error' WHERE a.network_id = network AND a.status ? 'foreign';
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION drop_empty_network() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Of two hosts that release at the same moment, the second must see that the first is gone.
    PERFORM 1 FROM networks n WHERE n.id = OLD.network_id FOR UPDATE;
    PERFORM end_network(n.id) FROM networks n WHERE n.id = OLD.network_id AND n.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id AND a.asked <> '');
    RETURN NULL;
END $$;

-- Key: that of the network, also where no host has it.
CREATE FUNCTION announce_network() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell('net:' || r.id);
BEGIN
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER drop_empty_network AFTER DELETE ON assignments FOR EACH ROW WHEN (OLD.network_id IS NOT NULL AND OLD.asked <> '') EXECUTE FUNCTION drop_empty_network();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON networks FOR EACH ROW EXECUTE FUNCTION announce_network();
CREATE TRIGGER announce_assigned AFTER UPDATE ON networks FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION announce_assigned();

-- work_of is what a host is told of a job's subject: of a VM, which must be on this host, also its project's name, its mark, the disks that were
-- once seen whole, the networks of its NICs, each "id kind name", and the pools that its spec names. NULL where it is about nothing that is here.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION work_of(subject text, host text) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF subject LIKE 'vm:%' THEN
        RETURN (SELECT json_build_object(
            'vm', json_build_object(
                'id', v.id, 'name', v.name, 'projectId', v.project_id, 'hostId', v.host_id, 'labels', v.labels, 'description', v.description,
                'generation', v.generation, 'observedGeneration', v.observed_generation, 'ordered', v.ordered, 'createdAt', v.created_at,
                'deletedAt', v.deleted_at, 'spec', v.spec),
            'project', (SELECT o.name FROM projects o WHERE o.id = v.project_id),
            'mark', (SELECT m.mark FROM vm_marks m WHERE m.vm_id = v.id),
            'made', (SELECT json_agg(json_build_object('poolId', m.pool_id, 'volume', m.volume) ORDER BY m.pool_id, m.volume)
                     FROM made_disks m WHERE m.vm_id = v.id),
            'networks', ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
                              WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}'))),
            'pools', (SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation,
                                                        'createdAt', p.created_at, 'deletedAt', p.deleted_at))
                      FROM pools p WHERE p.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.**.poolId') #>> '{}'))))
        FROM vms v WHERE v.id = substr(subject, 4) COLLATE "C" AND v.host_id = host);
    ELSIF subject LIKE 'pool:%' THEN
        RETURN (SELECT json_build_object('pool', json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation,
                                                                   'createdAt', p.created_at, 'deletedAt', p.deleted_at))
                FROM pools p WHERE p.id = substr(subject, 6) COLLATE "default");
    ELSIF subject LIKE 'net:%' THEN
        RETURN (SELECT json_build_object('network', json_build_object('id', n.id, 'name', n.name, 'kind', n.kind, 'spec', n.spec, 'generation', n.generation,
                                                                      'createdAt', n.created_at, 'deletedAt', n.deleted_at))
                FROM networks n WHERE n.id = substr(subject, 5) COLLATE "default" AND n.spec IS NOT NULL);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
