-- name: Pulse :exec
-- A cheap change, as durable as any other, that tests whether the server accepts changes.
INSERT INTO pulse DEFAULT VALUES ON CONFLICT (one) DO UPDATE SET at = now();
