-- +goose Up
-- A host that receives a VM, or the state and the definition of a VM that is off, gets the VM with its job, although the VM
-- still belongs to its old host. Only the receiver of a running VM gets the ownership mark: with it, a host could claim to
-- run a VM that is off on its old host.

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
            'mark', (SELECT m.mark FROM vm_marks m WHERE m.vm_id = v.id AND (v.host_id = host OR received.kind = 'vm.receive')),
            'made', (SELECT json_agg(json_build_object('poolId', m.pool_id, 'volume', m.volume) ORDER BY m.pool_id, m.volume)
                     FROM made_disks m WHERE m.vm_id = v.id),
            'networks', ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
                              WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}'))),
            'pools', (SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation,
                                                        'createdAt', p.created_at, 'deletedAt', p.deleted_at))
                      FROM pools p WHERE p.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.**.poolId') #>> '{}'))))
        FROM vms v LEFT JOIN LATERAL (
            SELECT r.kind FROM jobs r
            WHERE r.subject = 'vm:' || v.id AND r.host_id = host AND r.state IN ('queued', 'running') AND v.host_id <> host
              AND (r.kind = 'vm.receive' OR r.kind = 'vm.firmware.receive' AND r.args @> '{"migrate": {"definition": true}}')
            ORDER BY r.kind DESC LIMIT 1) received ON true
        WHERE v.id = substr(subject, 4) COLLATE "C" AND (v.host_id = host OR received.kind IS NOT NULL));
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
