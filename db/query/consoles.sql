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

-- name: LockConsole :exec
-- Serializes the changes of who has the keyboard of a console.
SELECT pg_advisory_xact_lock(hashtextextended('console ' || @subject::text, 0));

-- name: OpenConsoleSession :exec
-- The session gets the keyboard unless another person has it.
INSERT INTO console_sessions (id, subject, uuid, vm_id, host_id, project_id, vm_name, kind, user_id, user_name, session, address, keyboard)
VALUES (@id, @subject, @uuid, NULLIF(@vm_id::text, ''), NULLIF(@host_id::text, ''), NULLIF(@project_id::text, ''), @vm_name, @kind, @user_id::text, @user_name, @session, @address,
        NOT EXISTS (SELECT FROM console_sessions h WHERE h.subject = @subject AND h.keyboard AND h.ended_at IS NULL AND h.user_id IS DISTINCT FROM @user_id::text));

-- name: ReportConsoleSession :one
-- Writes the counts of an open session, and returns the session's state.
WITH counted AS (
    UPDATE console_sessions c SET seen_at = now(), sent = GREATEST(c.sent, @sent::bigint), shown = GREATEST(c.shown, @shown::bigint) WHERE c.id = @id AND c.user_id = @user_id::text AND c.ended_at IS NULL
)
SELECT s.keyboard, (s.ended_at IS NOT NULL)::boolean AS ended, s.ended_by FROM console_sessions s WHERE s.id = @id AND s.user_id = @user_id::text;

-- name: CountConsoleSession :exec
-- Writes the final counts of a session that somebody has ended.
UPDATE console_sessions SET sent = GREATEST(sent, @sent::bigint), shown = GREATEST(shown, @shown::bigint) WHERE id = @id;

-- name: GetConsoleSession :one
SELECT id, subject, COALESCE(vm_id, '')::text AS vm_id, COALESCE(host_id, '')::text AS host_id, COALESCE(project_id, '')::text AS project_id, vm_name, COALESCE(user_id, '')::text AS user_id, user_name,
    keyboard, (ended_at IS NOT NULL)::boolean AS ended FROM console_sessions WHERE id = @id;

-- name: EndConsoleSession :one
UPDATE console_sessions SET ended_at = now(), ended_by = @ended_by, end_reason = @end_reason, keyboard = false, asked_at = NULL,
    sent = GREATEST(sent, @sent::bigint), shown = GREATEST(shown, @shown::bigint)
WHERE id = @id AND ended_at IS NULL RETURNING subject;

-- name: PassKeyboard :exec
-- Gives the keyboard that nobody has to the person who has asked first, or who came first.
UPDATE console_sessions c SET keyboard = true, asked_at = NULL
FROM (SELECT s.user_id FROM console_sessions s WHERE s.subject = @subject AND s.ended_at IS NULL ORDER BY s.asked_at, s.opened_at LIMIT 1) heir
WHERE c.subject = @subject AND c.ended_at IS NULL AND c.user_id IS NOT DISTINCT FROM heir.user_id
  AND NOT EXISTS (SELECT FROM console_sessions h WHERE h.subject = @subject AND h.keyboard AND h.ended_at IS NULL);

-- name: KeyboardHolder :one
-- The person who has the keyboard of a console.
SELECT COALESCE(user_id, '')::text AS user_id, user_name FROM console_sessions WHERE subject = @subject AND keyboard AND ended_at IS NULL LIMIT 1;

-- name: GrantKeyboard :exec
-- Gives the keyboard to all sessions of a session's user at its console, and to no others.
UPDATE console_sessions c SET keyboard = c.user_id IS NOT DISTINCT FROM s.user_id, asked_at = CASE WHEN c.user_id IS DISTINCT FROM s.user_id THEN c.asked_at END
FROM console_sessions s WHERE s.id = @id AND s.ended_at IS NULL AND c.subject = s.subject AND c.ended_at IS NULL;

-- name: AskForKeyboard :execrows
UPDATE console_sessions SET asked_at = now() WHERE id = @id AND ended_at IS NULL AND asked_at IS NULL AND NOT keyboard;

-- name: ConsolesWithLostSessions :many
-- Consoles with open sessions that no portal reports any more, in one order for all passes.
SELECT DISTINCT l.subject FROM (SELECT s.subject FROM console_sessions s WHERE s.ended_at IS NULL AND s.seen_at < now() - @age::interval ORDER BY s.seen_at LIMIT @most) l ORDER BY l.subject;

-- name: EndLostConsoleSessions :exec
UPDATE console_sessions SET ended_at = seen_at, end_reason = 'The portal stopped.', keyboard = false, asked_at = NULL
WHERE subject = @subject AND ended_at IS NULL AND seen_at < now() - @age::interval;

-- name: SweepConsoleSessions :execrows
DELETE FROM console_sessions WHERE id = ANY (ARRAY(SELECT s.id FROM console_sessions s WHERE s.ended_at < now() - @age::interval ORDER BY s.ended_at LIMIT @most));
