-- +goose Up
-- NOTIFY takes a lock that all commits of one server with news wait for, their flush to the disk included. What agents claim and finish
-- comes by the thousand: there the portal collects the keys (SET LOCAL quantix.told to any text) and tells them after the commit, those
-- of many transactions at once. Whoever does not ask for it notifies as ever.
-- +goose StatementBegin
CREATE FUNCTION tell(key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE told text := current_setting('quantix.told', true);
BEGIN
    IF COALESCE(told, '') = '' THEN
        PERFORM pg_notify('quantix', key);
    ELSE
        PERFORM set_config('quantix.told', told || E'\n' || key, true);
    END IF;
END $$;

-- told returns all that was collected: the text that it began with, then a line for each key. Tasks that are parts of others tell of these,
-- which are settled at the end: that is done now.
CREATE FUNCTION told() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF position(E'\ntask:' IN current_setting('quantix.told')) > 0 THEN
        SET CONSTRAINTS ALL IMMEDIATE;
    END IF;
    RETURN current_setting('quantix.told');
END $$;

CREATE OR REPLACE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN PERFORM tell('vm:' || r.id);
        WHEN 'hosts' THEN PERFORM tell('host:' || r.id);
        WHEN 'found_vms' THEN PERFORM tell('host:' || r.host_id);
        WHEN 'pools' THEN PERFORM tell('pool:' || r.id);
        WHEN 'projects' THEN PERFORM tell('projects');
    END CASE;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announce_to_project() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN PERFORM tell('vms:' || r.project_id);
        WHEN 'projects' THEN PERFORM tell('project:' || r.id);
    END CASE;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announce_assignment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    PERFORM tell(r.noun || ':' || r.object_id);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announce_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'queued' OR EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = NEW.host_id AND j.state = 'queued') THEN
        PERFORM tell('jobs:' || NEW.host_id);
    END IF;
    RETURN NULL;
END $$;

-- Keys: tasks, tasks:<project>, the subject's, and that of the task which it is a part of.
CREATE OR REPLACE FUNCTION announce_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    PERFORM tell('tasks');
    IF r.project_id IS NOT NULL THEN
        PERFORM tell('tasks:' || r.project_id);
    END IF;
    IF r.subject <> '' THEN
        PERFORM tell(r.subject);
    END IF;
    IF r.parent_id IS NOT NULL THEN
        PERFORM tell('task:' || r.parent_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- A claim asks for its host's consoles first, for somebody waits before each, and then for the oldest order of each subject that is not at
-- work. Each question has its index, and no other index answers it, whatever the planner believes of a young table.
DROP INDEX jobs_to_claim;
CREATE INDEX jobs_to_claim ON jobs (host_id, id) WHERE state = 'queued';
CREATE INDEX jobs_running ON jobs (host_id, id) WHERE state = 'running';
CREATE INDEX jobs_aside ON jobs (host_id, id) WHERE state = 'queued' AND task_id IS NULL;
CREATE INDEX jobs_at_work ON jobs (subject) WHERE state = 'running' AND task_id IS NOT NULL;
DROP INDEX jobs_leased;
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE state = 'running' AND lease_until IS NOT NULL;

-- lapsed_jobs are the jobs whose lease is over, or all that run on a host whose agent was started anew: each a question to one index.
-- +goose StatementBegin
CREATE FUNCTION lapsed_jobs(host text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT j.id FROM jobs j WHERE j.host_id = host AND j.state = 'running'
    UNION ALL SELECT j.id FROM jobs j WHERE host IS NULL AND j.state = 'running' AND j.lease_until < now()
$$;
-- +goose StatementEnd
