-- +goose Up
-- What VMs' guests are told when they first start, sealed with a key that is not in this database: it may hold secrets. by_key says with which.
-- Which one a VM has is in its spec; a row that is not of that number is none.
CREATE TABLE first_boots (
    vm_id   text COLLATE "C" PRIMARY KEY REFERENCES vms ON DELETE CASCADE,
    number  bigint NOT NULL,
    by_key  text NOT NULL,
    sealed  bytea NOT NULL,
    set_at  timestamptz NOT NULL DEFAULT now(),
    set_by  text NOT NULL
);

-- Customization specs: a first boot with variables, kept to be used for many VMs. Of a project, or of the fleet (project_id NULL).
CREATE TABLE customizations (
    id          text PRIMARY KEY,
    project_id  text REFERENCES projects ON DELETE CASCADE,
    name        text NOT NULL,
    description text NOT NULL,
    kind        text NOT NULL,
    variables   text[] NOT NULL,                -- those that are given for each VM
    by_key      text NOT NULL,
    sealed      bytea NOT NULL,
    generation  bigint NOT NULL DEFAULT 1,
    changed_at  timestamptz NOT NULL DEFAULT now(),
    changed_by  text NOT NULL,
    CONSTRAINT customization_name_taken UNIQUE NULLS NOT DISTINCT (project_id, name)
);
