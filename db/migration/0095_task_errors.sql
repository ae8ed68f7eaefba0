-- +goose Up
-- keep_task, as it was, but a task repeats no error that another error of its jobs contains.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_task() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF OLD.role <> '' AND (TG_OP = 'DELETE' OR (OLD.state, OLD.attempt, OLD.progress, OLD.note, OLD.error, OLD.run_after)
       IS DISTINCT FROM (NEW.state, NEW.attempt, NEW.progress, NEW.note, NEW.error, NEW.run_after) OR OLD.task_id <> NEW.task_id) THEN
        PERFORM 1 FROM tasks t WHERE t.id = OLD.task_id FOR NO KEY UPDATE; -- so that of two parties that end at once the second counts the first
        UPDATE tasks t SET state = p.state, attempt = p.attempt, progress = p.progress, note = p.note, error = p.error, retry_at = p.retry_at,
                           started_at = p.started_at, ended_at = p.ended_at
        FROM (SELECT settled(array_agg(DISTINCT j.state)) AS state, max(j.attempt) AS attempt, avg(j.progress)::integer AS progress,
                     COALESCE(string_agg(NULLIF(j.note, ''), '; ' ORDER BY j.role), '') AS note,
                     COALESCE(string_agg(j.error, ' ' ORDER BY j.role) FILTER (WHERE j.error <> '' AND NOT EXISTS (
                         SELECT 1 FROM jobs o WHERE o.task_id = OLD.task_id AND o.id <> j.id AND strpos(o.error, j.error) > 0
                           AND (o.error <> j.error OR o.id < j.id))), '') AS error,
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
