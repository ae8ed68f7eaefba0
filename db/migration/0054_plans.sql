-- +goose Up
-- Plans: what somebody asked to be told before it is done, with what the VM's host said of it. A plan serves its hour and is no record of anything.
CREATE TABLE vm_plans (
    id         text COLLATE "C" PRIMARY KEY,
    user_id    text NOT NULL,                 -- who asked, and alone may read it and carry it out
    project_id text NOT NULL,
    host_id    text NOT NULL,                 -- whom it was asked of
    vm_id      text,                          -- NULL: of a new VM
    vm         jsonb NOT NULL,                -- fleet.VM as it would be: what the host is told
    asked      jsonb NOT NULL,                -- control's order, to be carried out as it was shown
    changes    jsonb NOT NULL DEFAULT '[]',   -- []fleet.Change
    drawing    jsonb,                         -- fleet.Drawing; NULL: the host has not answered
    failed     boolean NOT NULL DEFAULT false,
    asked_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX vm_plans_by_user ON vm_plans (user_id, asked_at); -- how many somebody waits for
CREATE INDEX vm_plans_by_age ON vm_plans (asked_at);           -- what is swept

-- plan_of is what a host is told of a plan that was asked of it, as work_of tells of a VM. NULL: there is none any more.
-- +goose StatementBegin
CREATE FUNCTION plan_of(args jsonb, host text) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'vm', p.vm,
        'project', (SELECT o.name FROM projects o WHERE o.id = p.project_id),
        'mark', (SELECT m.mark FROM vm_marks m WHERE m.vm_id = p.vm_id),
        'made', (SELECT json_agg(json_build_object('poolId', m.pool_id, 'volume', m.volume) ORDER BY m.pool_id, m.volume) FROM made_disks m WHERE m.vm_id = p.vm_id),
        'pools', (SELECT json_agg(json_build_object('id', o.id, 'name', o.name, 'spec', o.spec, 'generation', o.generation, 'createdAt', o.created_at, 'deletedAt', o.deleted_at))
                  FROM pools o WHERE o.id = ANY (ARRAY(SELECT jsonb_path_query(p.vm->'spec', '$.**.poolId') #>> '{}'))))
    FROM vm_plans p WHERE p.id = (args ->> 'plan') COLLATE "C" AND p.host_id = host AND p.drawing IS NULL;
$$;
-- +goose StatementEnd

-- An edit of many VMs: what each child of the task is to do.
CREATE TABLE task_edits (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks ON DELETE CASCADE, -- the task with the children
    edit    jsonb NOT NULL
);
