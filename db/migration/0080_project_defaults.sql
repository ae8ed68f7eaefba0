-- +goose Up
-- The pool and the network of a project's new VMs where none is chosen; NULL: the portal's choice.
ALTER TABLE projects
    ADD COLUMN default_pool_id text REFERENCES pools ON DELETE SET NULL,
    ADD COLUMN default_network_id text REFERENCES networks ON DELETE SET NULL;
-- For the deletion of a pool or a network.
CREATE INDEX projects_default_pool ON projects (default_pool_id) WHERE default_pool_id IS NOT NULL;
CREATE INDEX projects_default_network ON projects (default_network_id) WHERE default_network_id IS NOT NULL;
