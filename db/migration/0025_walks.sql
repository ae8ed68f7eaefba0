-- +goose Up
-- While little waited or ran, a statement that asks for what waits may be planned to walk a whole index of that, whichever is smallest then, and
-- the plan stays when it has become large. So each index of jobs in one state says in its condition which question it is for: one about a host
-- looks at run_after or started_at, one about a subject at neither, and what is swept has ended.
UPDATE jobs SET started_at = now() WHERE state = 'running' AND started_at IS NULL; -- there is none: a claim sets it
DROP INDEX jobs_to_claim, jobs_aside, jobs_running, jobs_of_none, jobs_by_task;
CREATE INDEX jobs_to_claim ON jobs (host_id, id) WHERE state = 'queued' AND run_after IS NOT NULL;
CREATE INDEX jobs_aside ON jobs (host_id, id) WHERE state = 'queued' AND task_id IS NULL AND run_after IS NOT NULL;
CREATE INDEX jobs_running ON jobs (host_id, id) WHERE state = 'running' AND started_at IS NOT NULL;
CREATE INDEX jobs_of_none ON jobs (ended_at) WHERE task_id IS NULL AND ended_at IS NOT NULL;
CREATE INDEX jobs_by_task ON jobs (task_id) WHERE task_id IS NOT NULL;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lapsed_jobs(host text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT j.id FROM jobs j WHERE j.host_id = host AND j.state = 'running' AND j.started_at IS NOT NULL
    UNION ALL SELECT j.id FROM jobs j WHERE host IS NULL AND j.state = 'running' AND j.lease_until < now()
$$;

CREATE OR REPLACE FUNCTION announce_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    IF NEW.state = 'queued' OR EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = NEW.host_id AND j.state = 'queued' AND j.run_after <= now()) THEN
        told := tell('jobs:' || NEW.host_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
