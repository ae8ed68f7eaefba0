-- name: Pulse :exec
-- A cheap change that is as durable as any other, to test whether the server accepts changes.
INSERT INTO pulse DEFAULT VALUES ON CONFLICT (one) DO UPDATE SET at = now();
