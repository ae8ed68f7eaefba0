-- +goose Up
-- work_of is what a host is told of a job's subject: of a VM, which must be on this host, also its project's name, its mark, the disks that were
-- once seen whole, the networks of its NICs, each "id kind name", and the pools that its spec names. NULL where it is about nothing that is here.
-- It keeps its plans and runs what the subject needs: inside the claim's own statement all of it was set up for each claim, a sixth of its time.
-- +goose StatementBegin
CREATE FUNCTION work_of(subject text, host text) RETURNS json LANGUAGE plpgsql STABLE AS $$
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
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
