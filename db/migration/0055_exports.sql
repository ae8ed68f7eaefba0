-- +goose Up
-- Exports: files that were made of VMs for somebody to fetch. They lie in pools as volumes until they are deleted, or are as old as exports become.
CREATE TABLE exports (
    id         text COLLATE "C" PRIMARY KEY,
    vm_id      text NOT NULL,                 -- of which it was made; it may be gone by now
    project_id text NOT NULL,                 -- whose members may have it
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks ON DELETE CASCADE,
    pool_id    text NOT NULL REFERENCES pools ON DELETE CASCADE,
    host_id    text NOT NULL REFERENCES hosts ON DELETE CASCADE, -- that made it
    volume     text NOT NULL,
    format     text NOT NULL CHECK (format IN ('ova', 'qcow2')),
    disk       integer NOT NULL DEFAULT 0,    -- which of the VM's disks, from 1; 0: all
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX exports_by_vm ON exports (vm_id);           -- those of a VM, on its page
CREATE INDEX exports_by_project ON exports (project_id); -- how many a project has
CREATE INDEX exports_by_task ON exports (task_id);       -- a task that goes by its age
CREATE INDEX exports_by_pool ON exports (pool_id);       -- a pool that goes
CREATE INDEX exports_by_host ON exports (host_id);       -- a host that is forgotten
CREATE INDEX exports_by_end ON exports (expires_at);     -- what is to go

-- pools_of_export are the pools in which the disks of an export lie, as work_of tells those of a VM's spec.
-- +goose StatementBegin
CREATE FUNCTION pools_of_export(args jsonb) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation, 'createdAt', p.created_at, 'deletedAt', p.deleted_at) ORDER BY p.id)
    FROM pools p WHERE p.id = ANY (ARRAY(SELECT d ->> 'poolId' FROM jsonb_array_elements(args #> '{volume,export,disks}') d));
$$;
-- +goose StatementEnd
