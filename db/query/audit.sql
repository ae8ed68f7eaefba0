-- name: AddAudit :exec
INSERT INTO audit (actor, user_id, address, action, subject, name, detail)
VALUES (@actor, @user_id, @address, @action, @subject, @name, @detail);

-- name: KeepAudit :exec
-- The lines of this month and of as many whole months before it are kept. It waits a second for whoever writes one.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
SELECT keep_audit(@months::integer) FROM patience;
