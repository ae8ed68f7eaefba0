-- name: OpenUpgrades :many
-- The upgrades of many hosts with hosts that have not begun, and their input.
SELECT t.id, e.edit FROM tasks t JOIN task_edits e ON e.task_id = t.id
WHERE t.id IN (SELECT w.parent_id FROM tasks w WHERE w.held AND w.pending) AND t.kind = 'host.agent.upgrade' ORDER BY t.id;

-- name: UpgradeSteps :many
-- The hosts of an upgrade in the order of their stages, with what they report.
SELECT t.subject_name AS host, t.stage, t.state, t.held, t.ended_at, now()::timestamptz AS now,
       COALESCE(is_fresh(s.seen_at, s.fresh_for), false)::boolean AS online, COALESCE(h.status->>'agentVersion', '')::text AS version
FROM tasks t LEFT JOIN hosts h ON h.id = substr(t.subject, 6) COLLATE "default" LEFT JOIN host_sessions s ON s.host_id = h.id
WHERE t.parent_id = @parent_id ORDER BY t.stage, t.id;

-- name: BeginUpgradeStage :execrows
-- Lets the hosts of the lowest held stage begin.
UPDATE tasks t SET held = false WHERE t.parent_id = @parent_id AND t.held
  AND t.stage = (SELECT min(w.stage) FROM tasks w WHERE w.parent_id = @parent_id AND w.held);

-- name: UpgradeOfHost :one
-- The task of the host's unfinished upgrade, other than a subtask that is about to begin; empty: there is none.
SELECT COALESCE((SELECT j.task_id FROM jobs j WHERE j.subject = 'host:' || @host_id::text AND j.kind = 'host.agent.upgrade' AND j.state IN ('queued', 'running') LIMIT 1),
    (SELECT t.id FROM tasks t WHERE t.subject = 'host:' || @host_id::text AND t.kind = 'host.agent.upgrade' AND t.pending AND t.id <> @child::text LIMIT 1), '')::text AS task_id;

-- name: ReleaseOrdered :one
-- Whether the host runs a job that installs this release.
SELECT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'host:' || @host_id::text AND j.host_id = @host_id AND j.kind = 'host.agent.upgrade' AND j.state = 'running'
               AND j.args #>> '{upgrade,version}' = @version::text);

-- name: EndStaleUpgrades :exec
-- Ends upgrades that their hosts did not get within 10 minutes, and those without a result after 30 minutes.
UPDATE jobs j SET state = CASE WHEN j.attempt = 0 THEN 'failed' ELSE 'unknown' END, error = CASE WHEN j.attempt = 0 THEN @not_begun::text ELSE @no_result::text END, ended_at = now(), lease_until = NULL
WHERE j.kind = 'host.agent.upgrade' AND j.state IN ('queued', 'running')
  AND (j.attempt = 0 AND j.created_at < now() - interval '10 minutes' OR j.started_at < now() - interval '30 minutes');

-- name: AgentVersionOf :one
SELECT COALESCE(status->>'agentVersion', '')::text FROM hosts WHERE id = @id;
