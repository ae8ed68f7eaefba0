-- +goose Up
-- Claims and results come by the hundred in one statement: what follows from them for tasks is done once a statement. What is told of them is
-- collected row by row, by assignments: PERFORM costs a query each.
DROP FUNCTION tell(text);
-- +goose StatementBegin
CREATE FUNCTION tell(VARIADIC keys text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE told text := current_setting('quantix.told', true);
BEGIN
    IF told <> '' THEN
        RETURN set_config('quantix.told', told || E'\n' || array_to_string(keys, E'\n'), true);
    END IF;
    PERFORM pg_notify('quantix', key) FROM unnest(keys) key WHERE key IS NOT NULL;
    RETURN NULL;
END $$;

DROP TRIGGER announce_to_project ON vms;
DROP TRIGGER announce_change_to_project ON vms;
DROP TRIGGER announce_to_project ON projects;
DROP FUNCTION announce_to_project();
CREATE OR REPLACE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text;
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'vms' THEN told := tell('vm:' || r.id, 'vms:' || r.project_id);
        WHEN 'hosts' THEN told := tell('host:' || r.id);
        WHEN 'found_vms' THEN told := tell('host:' || r.host_id);
        WHEN 'pools' THEN told := tell('pool:' || r.id);
        WHEN 'projects' THEN told := tell('projects', 'project:' || r.id);
    END CASE;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announce_assignment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell(r.noun || ':' || r.object_id);
BEGIN
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announce_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    IF NEW.state = 'queued' OR EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = NEW.host_id AND j.state = 'queued') THEN
        told := tell('jobs:' || NEW.host_id);
    END IF;
    RETURN NULL;
END $$;

-- Keys: tasks, tasks:<project>, the subject's, and that of the task which it is a part of.
CREATE OR REPLACE FUNCTION announce_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text := tell('tasks', 'tasks:' || r.project_id, NULLIF(r.subject, ''), 'task:' || r.parent_id);
BEGIN
    RETURN NULL;
END $$;

-- keep_tasks: a task is as its job is, whoever changes it. A renewed lease is no news. A task is found by "= ANY (ARRAY[…])", which only an
-- index answers: by "=" a plan that was made while there were none would read all tasks.
CREATE FUNCTION keep_tasks() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE tasks t SET host_id = j.host_id, state = j.state, generation = j.generation, attempt = j.attempt, progress = j.progress, note = j.note,
                       error = j.error, retry_at = CASE WHEN j.state = 'queued' AND j.retries > 0 THEN j.run_after END,
                       started_at = j.started_at, ended_at = j.ended_at
    FROM changed j
    WHERE j.role = '' AND t.id = ANY (ARRAY[j.task_id])
      AND (t.host_id, t.state, t.generation, t.attempt, t.progress, t.note, t.error, t.retry_at)
          IS DISTINCT FROM (j.host_id, j.state, j.generation, j.attempt, j.progress, j.note, j.error, CASE WHEN j.state = 'queued' AND j.retries > 0 THEN j.run_after END);
    RETURN NULL;
END $$;
CREATE TRIGGER keep_tasks AFTER UPDATE ON jobs REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_tasks();

-- keep_task: a task of several parties is as all of their jobs are. One that has lost its jobs before its end is over.
CREATE OR REPLACE FUNCTION keep_task() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF OLD.role <> '' THEN
        PERFORM 1 FROM tasks t WHERE t.id = OLD.task_id FOR NO KEY UPDATE; -- so that of two parties that end at once the second counts the first
        UPDATE tasks t SET state = p.state, attempt = p.attempt, progress = p.progress, note = p.note, error = p.error, retry_at = p.retry_at,
                           started_at = p.started_at, ended_at = p.ended_at
        FROM (SELECT settled(array_agg(DISTINCT j.state)) AS state, max(j.attempt) AS attempt, avg(j.progress)::integer AS progress,
                     COALESCE(string_agg(NULLIF(j.note, ''), ' ' ORDER BY j.role), '') AS note,
                     COALESCE(string_agg(NULLIF(j.error, ''), ' ' ORDER BY j.role), '') AS error,
                     min(j.run_after) FILTER (WHERE j.state = 'queued' AND j.retries > 0) AS retry_at, min(j.started_at) AS started_at,
                     CASE WHEN bool_and(j.ended_at IS NOT NULL) THEN max(j.ended_at) END AS ended_at
              FROM jobs j WHERE j.task_id = OLD.task_id HAVING count(*) > 0) p
        WHERE t.id = OLD.task_id;
    END IF;
    IF TG_OP = 'DELETE' OR OLD.task_id <> NEW.task_id THEN
        UPDATE tasks t SET state = 'cancelled', ended_at = now(), retry_at = NULL,
                           error = CASE TG_OP WHEN 'DELETE' THEN 'Its host was removed.' ELSE 'Replaced by a newer order.' END
        WHERE t.id = OLD.task_id AND t.state IN ('queued', 'running') AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.task_id = OLD.task_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER keep_task ON jobs;
CREATE TRIGGER keep_task AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.task_id <> NEW.task_id OR OLD.role <> '' AND (OLD.state, OLD.attempt, OLD.progress, OLD.note, OLD.error, OLD.run_after)
          IS DISTINCT FROM (NEW.state, NEW.attempt, NEW.progress, NEW.note, NEW.error, NEW.run_after))
    EXECUTE FUNCTION keep_task();

-- One index answers what runs on a host, and no claim's question about a subject: a partial index whose condition a statement says may be read whole.
DROP INDEX jobs_running;
CREATE INDEX jobs_running ON jobs (host_id, id) WHERE state = 'running' AND lease_until IS NOT NULL;
DROP INDEX jobs_tried_again;   -- what waits for a host is little
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lapsed_jobs(host text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT j.id FROM jobs j WHERE j.host_id = host AND j.state = 'running' AND j.lease_until IS NOT NULL
    UNION ALL SELECT j.id FROM jobs j WHERE host IS NULL AND j.state = 'running' AND j.lease_until < now()
$$;
-- +goose StatementEnd

-- Each of these questions has its index too.
CREATE INDEX jobs_due ON jobs (run_after) WHERE state = 'queued' AND run_after > created_at;    -- those that waited for their time
CREATE INDEX vms_unmade ON vms (host_id) WHERE observed_generation = 0;
CREATE INDEX made_disks_by_volume ON made_disks (pool_id, volume);

-- born is what the version 7 UUIDs of that time begin with.
-- +goose StatementBegin
CREATE FUNCTION born(at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT overlay(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0) COLLATE "C"
$$;
-- +goose StatementEnd
