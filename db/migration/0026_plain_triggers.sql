-- +goose Up
-- The condition of a trigger is read from its text and planned by each statement that may fire it, with the functions in it: that took a lone order,
-- claim or end as long as all of its triggers' work. What they ask is asked in their functions, which keep their plans.

-- keep_ordered keeps vms.ordered: the power of the newest order about the subject that has not ended.
-- +goose StatementBegin
CREATE FUNCTION keep_ordered(of text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE asked text;
BEGIN
    SELECT ordered_power(j.kind) INTO asked FROM jobs j
    WHERE j.subject = of AND j.state IN ('queued', 'running') AND ordered_power(j.kind) IS NOT NULL
    ORDER BY j.id DESC LIMIT 1;
    UPDATE vms v SET ordered = COALESCE(asked, '') WHERE v.id = substr(of, 4) AND v.ordered <> COALESCE(asked, '');
    RETURN asked;
END $$;

-- A job wakes its host's agent; what pages show of it is the task. The end of one is news to the agent only where another waits.
CREATE FUNCTION job_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was text := COALESCE(OLD.state, '');
    done text;
BEGIN
    IF NEW.state = 'queued' AND (was <> 'queued' OR OLD.run_after <> NEW.run_after) THEN
        done := tell('jobs:' || NEW.host_id);
    ELSIF was = 'running' AND NEW.state <> 'running' THEN
        IF EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = NEW.host_id AND j.state = 'queued' AND j.run_after <= now()) THEN
            done := tell('jobs:' || NEW.host_id);
        END IF;
    END IF;
    IF (was IN ('queued', 'running')) <> (NEW.state IN ('queued', 'running')) AND ordered_power(NEW.kind) IS NOT NULL THEN
        done := keep_ordered(NEW.subject);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION job_gone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE done text;
BEGIN
    IF OLD.state IN ('queued', 'running') AND ordered_power(OLD.kind) IS NOT NULL THEN
        done := keep_ordered(OLD.subject);
    END IF;
    RETURN NULL;
END $$;

-- Keys: tasks, tasks:<project>, the subject's, and that of the task which it is a part of. New children are news of their parent's alone.
CREATE OR REPLACE FUNCTION announce_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record := COALESCE(NEW, OLD);
    told text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.state, OLD.progress, OLD.note, OLD.error, OLD.retry_at, OLD.steps, OLD.generation, OLD.created_by)
           IS NOT DISTINCT FROM (NEW.state, NEW.progress, NEW.note, NEW.error, NEW.retry_at, NEW.steps, NEW.generation, NEW.created_by) THEN
            RETURN NULL;
        END IF;
    ELSIF r.parent_id IS NOT NULL THEN
        RETURN NULL;
    END IF;
    told := tell('tasks', 'tasks:' || r.project_id, NULLIF(r.subject, ''), 'task:' || r.parent_id);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- keep_task, as it was, but that it asks itself whether there is news. A renewed lease is none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_task() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF OLD.role <> '' AND (TG_OP = 'DELETE' OR (OLD.state, OLD.attempt, OLD.progress, OLD.note, OLD.error, OLD.run_after)
       IS DISTINCT FROM (NEW.state, NEW.attempt, NEW.progress, NEW.note, NEW.error, NEW.run_after) OR OLD.task_id <> NEW.task_id) THEN
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
CREATE TRIGGER keep_task AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.task_id <> NEW.task_id OR OLD.role <> '') EXECUTE FUNCTION keep_task();

DROP TRIGGER announce ON jobs;
DROP TRIGGER announce_change ON jobs;
DROP TRIGGER keep_ordered ON jobs;
DROP TRIGGER keep_ordered_change ON jobs;
DROP TRIGGER keep_ordered_end ON jobs;
DROP FUNCTION announce_job();
DROP FUNCTION keep_ordered();
CREATE TRIGGER job_changed AFTER INSERT OR UPDATE OF state, run_after ON jobs FOR EACH ROW EXECUTE FUNCTION job_changed();
CREATE TRIGGER job_gone AFTER DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION job_gone();
DROP TRIGGER announce ON tasks;
DROP TRIGGER announce_change ON tasks;
DROP TRIGGER announce_end ON tasks;
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION announce_task();
