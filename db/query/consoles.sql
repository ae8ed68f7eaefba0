-- name: AddTicket :execrows
-- No row: the person holds max unused tickets already.
INSERT INTO console_tickets (hash, console_id, vm_id, user_id, session, expires_at)
SELECT @hash, @console_id, @vm_id, @user_id, @session, now() + interval '30 seconds'
WHERE (SELECT count(*) FROM console_tickets t WHERE t.user_id = @user_id AND t.used_at IS NULL AND t.expires_at > now()) < @max::bigint;

-- name: RedeemTicket :one
-- One use, whoever comes first.
UPDATE console_tickets SET used_at = now()
WHERE hash = @hash AND console_id = @console_id AND user_id = @user_id AND session = @session AND used_at IS NULL AND expires_at > now()
RETURNING vm_id;

-- name: ConsoleOfHost :one
-- Whether the session is the host's, and whether it may still dial this console back: its own VM's, with a browser that came
-- a moment ago.
SELECT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = @host_id AND s.session = @session) AS proven, EXISTS (
    SELECT 1 FROM console_tickets t JOIN vms v ON v.id = t.vm_id
    WHERE t.console_id = @console_id AND v.host_id = @host_id AND t.used_at > now() - interval '30 seconds'
) AS awaited;
