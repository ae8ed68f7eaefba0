-- +goose Up
-- A task is what somebody asked; a job is one permission for one host. A lone order is a task with one job, an order about many
-- things a task with a child for each. Opening a console is a job without a task.
CREATE TABLE tasks (
    id           text COLLATE "C" NOT NULL,    -- version 7 UUID: ordered by birth. A lone order's job has its task's id
    parent_id    text COLLATE "C",
    listed       boolean NOT NULL DEFAULT true, -- whether its project's list shows it: not the children of a task that is there itself
    pending      boolean NOT NULL DEFAULT false, -- a child for which the portal has yet to ask
    kind         text NOT NULL,
    subject      text COLLATE "C" NOT NULL,    -- task:<its own id> where it is about all of its children; '': nothing that exists
    subject_name text NOT NULL,
    project_id   text,                         -- NULL: of no project, or of several
    host_id      text,                         -- NULL: no host has it, or the host is gone
    generation   bigint NOT NULL DEFAULT 0,
    state        text NOT NULL DEFAULT 'queued'
                 CONSTRAINT task_state_known CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'unknown')),
    attempt      integer NOT NULL DEFAULT 0,
    progress     integer NOT NULL DEFAULT 0,
    note         text NOT NULL DEFAULT '',
    error        text NOT NULL DEFAULT '',
    retry_at     timestamptz,
    steps        jsonb,                        -- of a parent: fleet.Steps
    created_by   text NOT NULL,
    user_id      text,
    address      text NOT NULL DEFAULT '',     -- from where a child was asked for, for the audit line of when it is done
    created_at   timestamptz NOT NULL DEFAULT now(),
    started_at   timestamptz,
    ended_at     timestamptz
);
INSERT INTO tasks (id, kind, subject, subject_name, project_id, host_id, generation, state, attempt, progress, note, error, retry_at,
                   created_by, user_id, created_at, started_at, ended_at)
SELECT id, kind, subject, subject_name, project_id, host_id, generation, state, attempt, progress, note, error,
       CASE WHEN state = 'queued' AND retries > 0 THEN run_after END, created_by, user_id, created_at, started_at, ended_at
FROM jobs WHERE kind <> 'console.open';

-- What became of actions about many VMs stood in a table of its own, for a day.
INSERT INTO tasks (id, kind, subject, subject_name, created_by, user_id, created_at)
SELECT b.id, 'vm.' || b.action, 'task:' || b.id, jsonb_array_length(b.results) || CASE jsonb_array_length(b.results) WHEN 1 THEN ' VM' ELSE ' VMs' END,
       u.name, b.user_id, b.created_at
FROM bulk_actions b JOIN users u ON u.id = b.user_id;
INSERT INTO tasks (id, parent_id, listed, kind, subject, subject_name, state, error, created_by, user_id, created_at, ended_at)
SELECT gen_random_uuid()::text, p.id, false, p.kind, '', r->>'name', 'failed', r->>'error', p.created_by, p.user_id, p.created_at, p.created_at
FROM bulk_actions b JOIN tasks p ON p.id = b.id, jsonb_array_elements(b.results) r WHERE COALESCE(r->>'task', '') = '';
UPDATE tasks t SET parent_id = newest.id
FROM (SELECT DISTINCT ON (r->>'task') r->>'task' AS task, b.id FROM bulk_actions b, jsonb_array_elements(b.results) r
      ORDER BY r->>'task', b.created_at DESC) newest
WHERE t.id = newest.task;
DROP TABLE bulk_actions;

ALTER TABLE tasks ADD PRIMARY KEY (id);
CREATE INDEX tasks_by_parent ON tasks (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_on_top ON tasks (id DESC) WHERE parent_id IS NULL;
CREATE INDEX tasks_open ON tasks (id DESC) WHERE state IN ('queued', 'running');
CREATE INDEX tasks_pending ON tasks (id) WHERE pending;
CREATE INDEX tasks_by_subject ON tasks (subject, id DESC);
CREATE INDEX tasks_by_user ON tasks (user_id, id DESC);
CREATE INDEX tasks_by_project ON tasks (project_id, id DESC);
CREATE INDEX tasks_by_host ON tasks (host_id, id DESC);
CREATE INDEX tasks_failed ON tasks (ended_at) WHERE state IN ('failed', 'unknown');    -- what wants attention
ALTER TABLE tasks
    ADD FOREIGN KEY (parent_id) REFERENCES tasks ON DELETE CASCADE,
    ADD FOREIGN KEY (project_id) REFERENCES projects ON DELETE CASCADE,
    ADD FOREIGN KEY (host_id) REFERENCES hosts ON DELETE SET NULL,
    ADD FOREIGN KEY (user_id) REFERENCES users ON DELETE SET NULL;

DROP TRIGGER announce ON jobs;
DROP TRIGGER announce_change ON jobs;
DROP TRIGGER announce_to_project ON jobs;
DROP TRIGGER announce_change_to_project ON jobs;
DROP INDEX job_waiting, jobs_by_user, jobs_by_project, jobs_by_host, jobs_failed;
ALTER TABLE jobs
    DROP COLUMN project_id, DROP COLUMN subject_name, DROP COLUMN created_by, DROP COLUMN user_id,
    ADD COLUMN task_id text COLLATE "C",            -- NULL: of no task. Such a job waits behind nothing, holds nothing up and never coalesces
    ADD COLUMN role text NOT NULL DEFAULT '';       -- which party of its task the host is; '': the only one
-- One pass over the table, where an UPDATE would leave every row behind twice.
ALTER TABLE jobs
    ALTER COLUMN id TYPE text COLLATE "C",
    ALTER COLUMN task_id TYPE text COLLATE "C" USING CASE WHEN kind <> 'console.open' THEN id END;
ALTER TABLE jobs ADD FOREIGN KEY (task_id) REFERENCES tasks ON DELETE CASCADE;
-- Edits coalesce: a subject has at most one waiting job a kind.
CREATE UNIQUE INDEX job_waiting ON jobs (subject, host_id, kind) WHERE state = 'queued' AND task_id IS NOT NULL;
CREATE INDEX jobs_by_task ON jobs (task_id);
CREATE INDEX jobs_of_none ON jobs (ended_at) WHERE task_id IS NULL;

-- settled is the state of what has parts in these states: it runs while one is open, and ends as the worst of them.
-- +goose StatementBegin
CREATE FUNCTION settled(states text[]) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE
        WHEN states <@ '{queued}' THEN 'queued'
        WHEN states && '{queued,running}' THEN 'running'
        WHEN 'failed' = ANY (states) THEN 'failed'
        WHEN 'unknown' = ANY (states) THEN 'unknown'
        WHEN 'cancelled' = ANY (states) THEN 'cancelled'
        ELSE 'done'
    END
$$;
-- +goose StatementEnd

-- keep_task: a task is as its job is, whoever changes it; one of several parties is as all of their jobs are. One that has lost its jobs
-- before its end is over.
-- +goose StatementBegin
CREATE FUNCTION keep_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.role = '' THEN
        UPDATE tasks t SET host_id = NEW.host_id, state = NEW.state, generation = NEW.generation, attempt = NEW.attempt, progress = NEW.progress, note = NEW.note,
                           error = NEW.error, retry_at = CASE WHEN NEW.state = 'queued' AND NEW.retries > 0 THEN NEW.run_after END,
                           started_at = NEW.started_at, ended_at = NEW.ended_at
        WHERE t.id = NEW.task_id;
    ELSIF OLD.role <> '' THEN
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
-- A renewed lease is no news.
CREATE TRIGGER keep_task AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.task_id IS NOT NULL AND (OLD.task_id, OLD.host_id, OLD.state, OLD.generation, OLD.attempt, OLD.progress, OLD.note, OLD.error, OLD.run_after)
          IS DISTINCT FROM (NEW.task_id, NEW.host_id, NEW.state, NEW.generation, NEW.attempt, NEW.progress, NEW.note, NEW.error, NEW.run_after))
    EXECUTE FUNCTION keep_task();
CREATE TRIGGER keep_task_end AFTER DELETE ON jobs FOR EACH ROW WHEN (OLD.task_id IS NOT NULL) EXECUTE FUNCTION keep_task();

-- settle_parent: a parent is as its children are; one that has lost all of them is over. It is locked before they are counted, so that of two that end at once the second
-- counts the first.
-- +goose StatementBegin
CREATE FUNCTION settle_parent(parent text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM tasks t WHERE t.id = parent FOR NO KEY UPDATE;
    UPDATE tasks t SET state = s.state, progress = s.progress, steps = s.steps, started_at = s.started_at, ended_at = s.ended_at
    FROM (SELECT COALESCE(settled(array_agg(DISTINCT c.state)), 'cancelled') AS state,
                 (100 * count(*) FILTER (WHERE c.state NOT IN ('queued', 'running')) / GREATEST(count(*), 1))::integer AS progress,
                 jsonb_build_object('queued', count(*) FILTER (WHERE c.state = 'queued'), 'running', count(*) FILTER (WHERE c.state = 'running'),
                     'done', count(*) FILTER (WHERE c.state = 'done'), 'failed', count(*) FILTER (WHERE c.state = 'failed'),
                     'cancelled', count(*) FILTER (WHERE c.state = 'cancelled'), 'unknown', count(*) FILTER (WHERE c.state = 'unknown'),
                     'refused', count(*) FILTER (WHERE c.state = 'failed' AND c.attempt = 0)) AS steps,
                 min(c.started_at) AS started_at,
                 CASE WHEN NOT COALESCE(bool_or(c.state IN ('queued', 'running')), false) THEN COALESCE(max(c.ended_at), now()) END AS ended_at
          FROM tasks c WHERE c.parent_id = parent) s
    WHERE t.id = parent;
END $$;
-- +goose StatementEnd

-- At the end of the transaction, so that children that end at once wait for each other as shortly as can be; and once, however many
-- of a parent's children it has changed: all is written by then.
-- +goose StatementBegin
CREATE FUNCTION keep_parent() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE settled text := COALESCE(current_setting('quantix.settled', true), '');
BEGIN
    IF position(OLD.parent_id IN settled) = 0 THEN
        PERFORM set_config('quantix.settled', settled || ' ' || OLD.parent_id, true), settle_parent(OLD.parent_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER keep_parent AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.parent_id IS NOT NULL AND OLD.state <> NEW.state) EXECUTE FUNCTION keep_parent();
CREATE CONSTRAINT TRIGGER keep_parent_end AFTER DELETE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.parent_id IS NOT NULL) EXECUTE FUNCTION keep_parent();

SELECT settle_parent(id) FROM tasks WHERE subject = 'task:' || id;

-- A job wakes its host's agent; what pages show of it is the task. The end of one is news to the agent only where another waits.
-- +goose StatementBegin
CREATE FUNCTION announce_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'queued' OR EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = NEW.host_id AND j.state = 'queued') THEN
        PERFORM pg_notify('quantix', 'jobs:' || NEW.host_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION announce_job();
CREATE TRIGGER announce_change AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (NEW.state = 'queued' AND (OLD.state <> 'queued' OR OLD.run_after <> NEW.run_after) OR OLD.state = 'running' AND NEW.state <> 'running')
    EXECUTE FUNCTION announce_job();

-- Keys: tasks, tasks:<project>, the subject's, and that of the task which it is a part of.
-- +goose StatementBegin
CREATE FUNCTION announce_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    r := COALESCE(NEW, OLD);
    PERFORM pg_notify('quantix', 'tasks');
    IF r.project_id IS NOT NULL THEN
        PERFORM pg_notify('quantix', 'tasks:' || r.project_id);
    END IF;
    IF r.subject <> '' THEN
        PERFORM pg_notify('quantix', r.subject);
    END IF;
    IF r.parent_id IS NOT NULL THEN
        PERFORM pg_notify('quantix', 'task:' || r.parent_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- New children are news of their parent's alone.
CREATE TRIGGER announce AFTER INSERT ON tasks FOR EACH ROW WHEN (NEW.parent_id IS NULL) EXECUTE FUNCTION announce_task();
CREATE TRIGGER announce_change AFTER UPDATE ON tasks FOR EACH ROW
    WHEN ((OLD.state, OLD.progress, OLD.note, OLD.error, OLD.retry_at, OLD.steps, OLD.generation, OLD.created_by)
          IS DISTINCT FROM (NEW.state, NEW.progress, NEW.note, NEW.error, NEW.retry_at, NEW.steps, NEW.generation, NEW.created_by))
    EXECUTE FUNCTION announce_task();
CREATE TRIGGER announce_end AFTER DELETE ON tasks FOR EACH ROW WHEN (OLD.parent_id IS NULL) EXECUTE FUNCTION announce_task();
