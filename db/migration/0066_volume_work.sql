-- +goose Up
-- The orders that work on volumes now. That a host is asked to come for an upload is none: the upload is, and ends before it.
CREATE VIEW volume_work AS
SELECT j.id, j.host_id, j.kind, j.state, j.subject, j.args, split_part(substr(j.subject, 8), '/', 1) AS pool_id FROM jobs j
WHERE j.subject LIKE 'volume:%' AND j.state IN ('queued', 'running') AND j.kind <> 'upload.open';
