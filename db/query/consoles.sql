-- name: AddTicket :execrows
-- Inserts no row if the user has the maximum number of unused tickets.
-- Without found_on, id is a VM's ID; otherwise the UUID of an unmanaged domain on that host.
INSERT INTO console_tickets (hash, console_id, vm_id, found_on, found_id, user_id, session, expires_at)
SELECT @hash, @console_id, CASE WHEN @found_on::text = '' THEN @id::text END, NULLIF(@found_on::text, ''), CASE WHEN @found_on::text <> '' THEN @id::text END,
       @user_id, @session, now() + interval '30 seconds'
WHERE (SELECT count(*) FROM console_tickets t WHERE t.user_id = @user_id AND t.used_at IS NULL AND t.expires_at > now()) < @max::bigint;

-- name: RedeemTicket :one
-- A ticket works once. The caller rolls back if the ticket belongs to another user.
UPDATE console_tickets SET used_at = now()
WHERE hash = @hash AND console_id = @console_id AND used_at IS NULL AND expires_at > now()
RETURNING COALESCE(vm_id, found_id)::text AS id, COALESCE(found_on, '')::text AS found_on, user_id, session;

-- name: AwaitedConsole :one
-- Whether the agent session is the host's current one, and the user of a console whose browser connected within the
-- last 30 seconds; empty values without such a console.
SELECT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = @host_id AND s.session = @session) AS proven,
    COALESCE(t.user_id, '')::text AS user_id, COALESCE(t.session, '')::text AS of_session, COALESCE(v.host_id, t.found_on, '')::text AS of_host
FROM (SELECT 1) one LEFT JOIN (console_tickets t LEFT JOIN vms v ON v.id = t.vm_id)
    ON t.console_id = @console_id AND t.used_at > now() - interval '30 seconds';
